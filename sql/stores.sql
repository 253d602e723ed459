-- Kafka cluster of the web site: clicks come in here, results go out.
-- Locally, `ds up` replaces the address by its own broker's.
-- @owner team:platform
-- @kinds kafka
CREATE STORE prod_kafka WITH (
  'type' = KAFKA,
  'uris' = 'localhost:9092'
);

-- Amazon Kinesis of the product team: who the users are.
-- The keys of the account are in the file beside this one, as references to environment variables.
-- @owner team:platform
-- @kinds kinesis
CREATE STORE prod_kinesis WITH (
  'type' = KINESIS,
  'availability_zone' = 'us-east-2',
  'uris' = 'https://kinesis.us-east-2.amazonaws.com:443',
  'config_file' = './sql/kinesis.properties'
);

-- Managed Kafka of the multi-store tutorial: registered users.
-- @owner team:platform
-- @kinds kafka
CREATE STORE MSK WITH (
  'type' = KAFKA,
  'uris' = 'localhost:9092'
);

-- Kafka store that the multi-store tutorial copies page views into.
-- @owner team:platform
-- @kinds kafka
CREATE STORE kafka_store WITH (
  'type' = KAFKA,
  'uris' = 'localhost:9092'
);

-- Kinesis store of the multi-store tutorial: page views, and page views with their user.
-- @owner team:platform
-- @kinds kinesis
CREATE STORE kinesis_store WITH (
  'type' = KINESIS,
  'access_region' = "AWS us-east-1",
  'uris' = 'https://kinesis.us-east-1.amazonaws.com:443',
  'config_file' = './sql/kinesis.properties'
);

-- Postgres warehouse for reports.
-- @owner team:analytics
-- @kinds postgres
CREATE STORE warehouse WITH (
  'type' = POSTGRESQL,
  'uris' = 'postgresql://localhost:5432/warehouse',
  'postgres.username' = '${WAREHOUSE_USER:-postgres}',
  'postgres.password' = '${WAREHOUSE_PASSWORD}'
);
