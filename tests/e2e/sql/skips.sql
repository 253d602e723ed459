-- A record that cannot be read, in a stream of Kinesis.

USE DATABASE clickstream_db;

CREATE STREAM parcels (id BIGINT NOT NULL, word VARCHAR) WITH ('store'='prod_kinesis', 'topic'='parcels',
  'value.format'='json', 'topic.shards'=2);
CREATE STREAM parcels_on WITH ('store'='prod_kafka', 'topic.partitions'=1, 'topic.replicas'=1) AS SELECT id, word FROM parcels;
