-- Views, a table and a changelog whose queries are changed while they are read: in a file, in Postgres and in Kafka.

USE DATABASE clickstream_db;

CREATE STREAM counted (id BIGINT, word VARCHAR, size BIGINT) WITH ('store'='prod_kafka', 'topic'='counted',
  'value.format'='json', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE MATERIALIZED VIEW counted_file AS SELECT word, COUNT(*) AS n FROM counted GROUP BY word;
CREATE MATERIALIZED VIEW counted_table WITH ('store'='warehouse') AS SELECT word, COUNT(*) AS n FROM counted GROUP BY word;
CREATE TABLE counted_load WITH ('store'='warehouse', 'refresh.mode'='continuous') AS
  SELECT word, COUNT(*) AS n FROM counted GROUP BY word;
CREATE CHANGELOG counted_log AS SELECT word, COUNT(*) AS n FROM counted GROUP BY word;
CREATE MATERIALIZED VIEW counted_sums AS SELECT CASE WHEN word < 'c' THEN 'early' ELSE 'late' END AS word, SUM(n) AS n,
  COUNT(*) AS words FROM counted_log GROUP BY CASE WHEN word < 'c' THEN 'early' ELSE 'late' END;
