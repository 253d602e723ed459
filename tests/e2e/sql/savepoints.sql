-- Queries that go on from savepoints: rows one by one, a table, a view with state, and windows in event time.

USE DATABASE clickstream_db;

CREATE STREAM saved (id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='saved', 'value.format'='json',
  'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM saved_on AS SELECT id, UPPER(word) AS word FROM saved;
CREATE TABLE saved_rows WITH ('store'='warehouse', 'refresh.mode'='continuous') AS SELECT id, word FROM saved;
CREATE MATERIALIZED VIEW saved_words AS SELECT word, COUNT(*) AS n FROM saved GROUP BY word;
CREATE CHANGELOG saved_windows AS SELECT window_start, window_end, word, COUNT(*) AS n, SUM(id) AS ids
  FROM TUMBLE(saved, SIZE 1 SECOND) GROUP BY window_start, window_end, word;
