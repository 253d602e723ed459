-- Rows that fail and rows that are late, of a topic and of a stream of Kinesis: their records go back.

USE DATABASE clickstream_db;

CREATE STREAM priced (id BIGINT, price VARCHAR) WITH ('store'='prod_kafka', 'topic'='priced', 'value.format'='json',
  'topic.partitions'=2, 'topic.replicas'=1);
CREATE STREAM prices AS SELECT id, CAST(price AS INTEGER) AS price FROM priced
  QUERY WITH ('row.error.handling'='IGNORE_AND_LOG');

CREATE STREAM weighed (id BIGINT, weight VARCHAR) WITH ('store'='prod_kinesis', 'topic'='weighed',
  'value.format'='json', 'topic.shards'=2);
CREATE STREAM weights WITH ('store'='prod_kafka', 'topic.partitions'=1, 'topic.replicas'=1) AS
  SELECT id, CAST(weight AS INTEGER) AS weight FROM weighed
  QUERY WITH ('row.error.handling'='IGNORE_AND_LOG', 'row.error.log.store'='prod_kafka');

CREATE STREAM visitors (id BIGINT) WITH ('store'='prod_kafka', 'topic'='visitors', 'value.format'='json',
  'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM visitors_late (id BIGINT, late_query VARCHAR, record_store VARCHAR, record_entity VARCHAR,
  record_partition VARCHAR, record_offset VARCHAR, record_time TIMESTAMP_LTZ(3))
  WITH ('store'='prod_kafka', 'topic'='visitors_late', 'value.format'='json', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE CHANGELOG visitors_by_second AS SELECT window_start, window_end, COUNT(*) AS n
  FROM TUMBLE(visitors, SIZE 1 SECOND) WITH ('source.idle.timeout.millis'=1000, 'source.allow.latency.millis'=100)
  GROUP BY window_start, window_end QUERY WITH ('late.rows.relation'='visitors_late');
