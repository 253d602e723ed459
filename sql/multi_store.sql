-- Several stores in one project: copy a Kinesis stream to Kafka, and join Kafka with Kinesis.

USE DATABASE clickstream_db;

-- Page views, one record per view, from Kinesis.
-- @owner team:web
-- @group multi_store
CREATE STREAM pageviews_kinesis (
  viewtime BIGINT,
  userid VARCHAR,
  pageid VARCHAR
) WITH ('store' = 'kinesis_store', 'topic' = 'pageviews', 'value.format' = 'json', 'topic.shards' = 1);

-- Registrations of users, from Kafka.
-- @owner team:accounts
-- @group multi_store
CREATE STREAM users_kafka (
  registertime BIGINT,
  userid VARCHAR,
  regionid VARCHAR,
  gender VARCHAR,
  interests ARRAY<VARCHAR>,
  contactinfo STRUCT<phone VARCHAR, city VARCHAR, "state" VARCHAR, zipcode VARCHAR>
) WITH ('store' = 'MSK', 'topic' = 'ds_users', 'value.format' = 'json', 'topic.partitions' = 1, 'topic.replicas' = 1);

-- The page views once more, in Kafka. A Kinesis source has no partitions to copy, so they are written here.
-- @owner team:web
-- @group multi_store
CREATE STREAM pageviews_kafka WITH ('store' = 'kafka_store', 'topic.partitions' = 1, 'topic.replicas' = 1) AS
  SELECT * FROM pageviews_kinesis;

-- Page views of users who registered within five minutes of the view; the shards are those of the page views.
-- @owner team:web
-- @group multi_store
CREATE STREAM pageviews_enriched WITH ('store' = 'kinesis_store') AS
  SELECT p.viewtime, p.userid AS userid, p.pageid, u.regionid, u.gender
  FROM pageviews_kinesis p
  JOIN users_kafka u WITHIN 5 MINUTES ON p.userid = u.userid;
