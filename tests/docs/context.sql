CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE k WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE prod_kafka WITH ('type' = KAFKA, 'uris' = 'localhost:9092');
CREATE STORE pg WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/db', 'postgres.username' = 'u');
CREATE STORE warehouse WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost:5432/db', 'postgres.username' = 'u');
CREATE STREAM clicks (event_time BIGINT, url VARCHAR, userid VARCHAR, device_id VARCHAR, viewtime BIGINT, n BIGINT)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json', 'timestamp' = 'event_time');
CREATE CHANGELOG users (userid VARCHAR, regionid VARCHAR, name VARCHAR, PRIMARY KEY (userid))
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE STREAM pageviews (viewtime BIGINT, userid VARCHAR, pageid VARCHAR)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json', 'timestamp' = 'viewtime');
CREATE STREAM registrations (userid VARCHAR, regionid VARCHAR)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE STREAM bids (id BIGINT, price BIGINT, item VARCHAR)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE STREAM refunds (id BIGINT, orderid BIGINT, shop VARCHAR)
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE CHANGELOG orders (id BIGINT, orderid BIGINT, region VARCHAR, amount BIGINT, customer VARCHAR, shop VARCHAR,
  PRIMARY KEY (orderid)) WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE CHANGELOG shipments (orderid BIGINT, carrier VARCHAR, PRIMARY KEY (orderid))
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE CHANGELOG customers (name VARCHAR, city VARCHAR, PRIMARY KEY (name))
  WITH ('topic.partitions' = 2, 'topic.replicas' = 1, 'value.format' = 'json');
CREATE SCHEMA_REGISTRY events WITH ('type' = CONFLUENT, 'uris' = 'https://schemas:8081');
