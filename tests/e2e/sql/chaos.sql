-- Views and a stream whose queries are changed while anything may be killed. Each definition has a number of its own.

USE DATABASE clickstream_db;

CREATE STREAM strokes (id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='strokes', 'value.format'='json',
  'topic.partitions'=1, 'topic.replicas'=1);
CREATE MATERIALIZED VIEW stroke_file AS
  SELECT word, COUNT(*) AS n, SUM(id) AS total, MAX(id + 0) AS last FROM strokes GROUP BY word;
CREATE MATERIALIZED VIEW stroke_table WITH ('store'='warehouse') AS
  SELECT word, COUNT(*) AS n, SUM(id) AS total, MAX(id + 0) AS last FROM strokes GROUP BY word;
CREATE STREAM stroke_rows WITH ('topic.partitions'=1, 'topic.replicas'=1) AS SELECT id, 0 AS version FROM strokes
  WITH ('starting.position'='timestamp', 'starting.timestamp'='2000-01-01 00:00:00');
