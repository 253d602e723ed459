-- Queries that only pass rows on, and one that counts them: their checkpoints are lost.

USE DATABASE clickstream_db;

CREATE STREAM handed (id BIGINT, word VARCHAR) WITH ('store'='prod_kafka', 'topic'='handed', 'value.format'='json',
  'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM handed_on AS SELECT id, UPPER(word) AS word FROM handed WHERE id >= 0;
CREATE TABLE handed_rows WITH ('store'='warehouse', 'refresh.mode'='continuous') AS SELECT id, word FROM handed;
CREATE MATERIALIZED VIEW handed_view AS SELECT id, word FROM handed;
CREATE MATERIALIZED VIEW handed_words AS SELECT word, COUNT(*) AS n FROM handed GROUP BY word;

BEGIN APPLICATION handed_twice
  CREATE STREAM handed_left AS SELECT id, word FROM handed;
  CREATE MATERIALIZED VIEW handed_right AS SELECT id, word FROM handed;
END APPLICATION;
