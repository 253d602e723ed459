-- Streams whose queries are changed while they are written: rows one by one, windows, pairs, rows without a partner,
-- totals up to each row.

USE DATABASE clickstream_db;

CREATE STREAM taps (id BIGINT, word VARCHAR, size BIGINT, at BIGINT) WITH ('store'='prod_kafka', 'topic'='taps',
  'value.format'='json', 'timestamp'='at', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM fits (id BIGINT, word VARCHAR, at BIGINT) WITH ('store'='prod_kafka', 'topic'='fits',
  'value.format'='json', 'timestamp'='at', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM tap_rows AS SELECT id, 1 AS version FROM taps WITH ('starting.position'='earliest');
CREATE CHANGELOG tap_windows AS SELECT window_start, window_end, word, SUM(size) AS total
  FROM TUMBLE(taps, SIZE 2 SECONDS) WITH ('source.allow.latency.millis'=503, 'source.idle.timeout.millis'=5000)
  GROUP BY window_start, window_end, word;
CREATE STREAM tap_pairs AS SELECT t.id AS tap, f.id AS fit, 1 AS version
  FROM taps t WITH ('source.allow.latency.millis'=503, 'source.idle.timeout.millis'=5000)
  JOIN fits f WITH ('source.allow.latency.millis'=503, 'source.idle.timeout.millis'=5000)
  WITHIN 1 SECONDS ON t.word = f.word;
CREATE CHANGELOG tap_hops AS SELECT window_start, window_end, word, SUM(size) AS total
  FROM HOP(taps, SIZE 4 SECONDS, ADVANCE BY 2 SECONDS)
  WITH ('source.allow.latency.millis'=503, 'source.idle.timeout.millis'=5000)
  GROUP BY window_start, window_end, word;
CREATE STREAM tap_outer AS SELECT t.id AS tap, f.id AS fit, 1 AS version
  FROM taps t WITH ('source.allow.latency.millis'=503, 'source.idle.timeout.millis'=5000)
  FULL JOIN fits f WITH ('source.allow.latency.millis'=503, 'source.idle.timeout.millis'=5000)
  WITHIN 1 SECONDS ON t.word = f.word;
CREATE STREAM tap_runs AS SELECT id, SUM(size) OVER (PARTITION BY word ORDER BY at) AS run, 1 AS version
  FROM taps WITH ('source.allow.latency.millis'=503, 'source.idle.timeout.millis'=5000);
