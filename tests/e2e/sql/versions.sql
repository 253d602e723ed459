-- Views and a table whose queries are changed while they are read: in a file and in Postgres.

USE DATABASE clickstream_db;

CREATE STREAM counted (id BIGINT, word VARCHAR, size BIGINT) WITH ('store'='prod_kafka', 'topic'='counted',
  'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE MATERIALIZED VIEW counted_file AS SELECT word, COUNT(*) AS n FROM counted GROUP BY word;
CREATE MATERIALIZED VIEW counted_table WITH ('store'='warehouse') AS SELECT word, COUNT(*) AS n FROM counted GROUP BY word;
CREATE TABLE counted_load WITH ('store'='warehouse', 'refresh.mode'='continuous') AS
  SELECT word, COUNT(*) AS n FROM counted GROUP BY word;
