-- What the proofs need besides the published pipelines.

USE DATABASE clickstream_db;

-- All clicks with their users in the warehouse: enough rows that a load can be hit in the middle.
CREATE TABLE joined_clicks WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT uid, user_regionid, click_time, click_url, device_type FROM user_clicks;

-- Two shards, to be inferred.
CREATE STREAM wide (n BIGINT, userid VARCHAR)
  WITH ('store'='kinesis_store', 'topic'='wide', 'value.format'='json', 'topic.shards'=2);
CREATE STREAM wide_copy WITH ('store'='kinesis_store') AS SELECT n, userid FROM wide;

-- Mistakes that only a server can tell.
CREATE STREAM nowhere (n BIGINT) WITH ('store'='prod_kafka', 'topic'='nowhere', 'value.format'='json');
CREATE STREAM from_nowhere AS SELECT n FROM nowhere;
CREATE STREAM few (n BIGINT)
  WITH ('store'='prod_kafka', 'topic'='few', 'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM from_few AS SELECT n FROM few;
CREATE TABLE other_shape WITH ('store'='warehouse') AS SELECT event_time, url, device_id FROM desktop_clicks;
CREATE STORE unreachable WITH ('type'=KAFKA, 'uris'='localhost:9092');
CREATE STREAM far (n BIGINT)
  WITH ('store'='unreachable', 'topic'='far', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM from_far WITH ('store'='prod_kafka', 'topic.partitions'=1, 'topic.replicas'=1) AS SELECT n FROM far;
CREATE STORE without_address WITH ('type'=KAFKA, 'uris'='${PROOF_BROKERS}');
CREATE STREAM unnamed (n BIGINT)
  WITH ('store'='without_address', 'topic'='unnamed', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM from_unnamed WITH ('store'='prod_kafka', 'topic.partitions'=1, 'topic.replicas'=1) AS SELECT n FROM unnamed;
