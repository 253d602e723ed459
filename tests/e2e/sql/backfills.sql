-- A table whose rows of a range of time are computed again.

USE DATABASE clickstream_db;

CREATE STREAM moments (at BIGINT, id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='moments',
  'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE TABLE moments_rows WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word FROM moments WHERE id % 7 <> 0;
-- @partitions daily from 2023-11-14 by happened
CREATE TABLE moments_days WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word FROM moments WHERE id % 7 <> 0;

-- Queries that begin after the first records of their topic, which loses some.
CREATE STREAM beginnings (at BIGINT, id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='beginnings',
  'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE TABLE late_rows WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word
  FROM beginnings WITH ('starting.position'='latest') WHERE id % 7 <> 0;
CREATE STORE lake WITH ('type'=DELTA, 'uris'='${DS_TEST_LAKE}');
CREATE TABLE late_lake WITH ('store'='lake', 'refresh.mode'='incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word
  FROM beginnings WITH ('starting.position'='latest') WHERE id % 7 <> 0;

-- Aggregates of windows, by the time of the broker.
CREATE STREAM ticking (id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='ticking',
  'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE TABLE ticking_windows WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT window_start, window_end, word, COUNT(*) AS n, SUM(id) AS ids FROM TUMBLE(ticking, SIZE 1 SECOND)
  GROUP BY window_start, window_end, word HAVING COUNT(*) > 1;
CREATE TABLE ticking_lake WITH ('store'='lake', 'refresh.mode'='incremental') AS
  SELECT window_start, window_end, word, COUNT(*) AS n, SUM(id) AS ids
  FROM HOP(ticking, SIZE 2 SECONDS, ADVANCE BY 1 SECOND) GROUP BY window_start, window_end, word;

-- Windows by a time that producers set: records come too late for them.
CREATE STREAM pacing (at BIGINT, id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='pacing',
  'value.format'='json', 'timestamp'='at', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE TABLE pacing_windows WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT window_start, window_end, word, COUNT(*) AS n, SUM(id) AS ids FROM TUMBLE(pacing, SIZE 1 MINUTE)
  GROUP BY window_start, window_end, word;
CREATE TABLE pacing_sessions WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT window_start, window_end, word, COUNT(*) AS n, SUM(id) AS ids FROM SESSION(pacing, GAP 1 MINUTE)
  GROUP BY window_start, window_end, word;

-- No other test reads this topic: it gets another partition.
CREATE STREAM drifting (at BIGINT, id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='drifting',
  'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE TABLE drifting_rows WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word FROM drifting WHERE id % 7 <> 0;
CREATE MATERIALIZED VIEW drifting_words AS SELECT word, COUNT(*) AS n FROM drifting GROUP BY word;

-- Files, which appear in any order.
CREATE STORE inbox WITH ('type'=S3, 'uris'='${DS_TEST_LAKE}');
CREATE STREAM arrivals (at BIGINT, id BIGINT, word VARCHAR) WITH ('store'='inbox', 'topic'='arrivals',
  'value.format'='csv', 'files.per.batch'=4);
-- @partitions daily from 2023-11-14 by happened
CREATE TABLE arrivals_rows WITH ('store'='warehouse', 'refresh.mode'='incremental') AS
  SELECT TO_TIMESTAMP_LTZ(at, 3) AS happened, id, UPPER(word) AS word FROM arrivals WHERE id % 7 <> 0;
