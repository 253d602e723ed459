-- The pipelines over event time in columns: what comes while it happens (live_…), and the same a year later (old_…).

USE DATABASE clickstream_db;

CREATE STREAM live_clicks (event_time BIGINT, url VARCHAR, userid VARCHAR, n BIGINT)
  WITH ('store'='prod_kafka', 'topic'='live_clicks', 'value.format'='json', 'timestamp'='event_time', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE CHANGELOG live_users (changed BIGINT, userid VARCHAR, regionid VARCHAR, PRIMARY KEY(userid))
  WITH ('store'='prod_kinesis', 'topic'='live_users', 'value.format'='json', 'timestamp'='changed', 'topic.shards'=1);
CREATE STREAM live_joined AS
  SELECT c.n AS n, c.url AS url, c.userid AS userid, u.regionid AS regionid, u.changed AS changed
  FROM live_clicks c WITH ('source.idle.timeout.millis'=5000) JOIN live_users u WITH ('source.idle.timeout.millis'=5000) ON c.userid = u.userid;
CREATE CHANGELOG live_minutes AS
  SELECT window_start, window_end, url, count(*) AS visits
  FROM TUMBLE(live_clicks, SIZE 1 MINUTE) WITH ('source.idle.timeout.millis'=5000)
  GROUP BY window_start, window_end, url;
CREATE STREAM live_orders (placed BIGINT, userid VARCHAR, amount BIGINT)
  WITH ('store'='prod_kafka', 'topic'='live_orders', 'value.format'='json', 'timestamp'='placed', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM live_near AS
  SELECT c.n AS n, c.userid AS userid, o.amount AS amount
  FROM live_clicks c WITH ('source.idle.timeout.millis'=5000) JOIN live_orders o WITH ('source.idle.timeout.millis'=5000) WITHIN 30 SECONDS ON c.userid = o.userid;

CREATE STREAM old_clicks (event_time BIGINT, url VARCHAR, userid VARCHAR, n BIGINT)
  WITH ('store'='prod_kafka', 'topic'='old_clicks', 'value.format'='json', 'timestamp'='event_time', 'topic.partitions'=2, 'topic.replicas'=1);
CREATE CHANGELOG old_users (changed BIGINT, userid VARCHAR, regionid VARCHAR, PRIMARY KEY(userid))
  WITH ('store'='prod_kinesis', 'topic'='old_users', 'value.format'='json', 'timestamp'='changed', 'topic.shards'=1);
CREATE STREAM old_joined AS
  SELECT c.n AS n, c.url AS url, c.userid AS userid, u.regionid AS regionid, u.changed AS changed
  FROM old_clicks c WITH ('source.idle.timeout.millis'=5000) JOIN old_users u WITH ('source.idle.timeout.millis'=5000) ON c.userid = u.userid;
CREATE CHANGELOG old_minutes AS
  SELECT window_start, window_end, url, count(*) AS visits
  FROM TUMBLE(old_clicks, SIZE 1 MINUTE) WITH ('source.idle.timeout.millis'=5000)
  GROUP BY window_start, window_end, url;
CREATE STREAM old_orders (placed BIGINT, userid VARCHAR, amount BIGINT)
  WITH ('store'='prod_kafka', 'topic'='old_orders', 'value.format'='json', 'timestamp'='placed', 'topic.partitions'=1, 'topic.replicas'=1);
CREATE STREAM old_near AS
  SELECT c.n AS n, c.userid AS userid, o.amount AS amount
  FROM old_clicks c WITH ('source.idle.timeout.millis'=5000) JOIN old_orders o WITH ('source.idle.timeout.millis'=5000) WITHIN 30 SECONDS ON c.userid = o.userid;

-- Eight partitions that are hours apart, read as one backlog.
CREATE STREAM backfill_clicks (event_time BIGINT, url VARCHAR, n BIGINT)
  WITH ('store'='prod_kafka', 'topic'='backfill_clicks', 'value.format'='json', 'timestamp'='event_time', 'topic.partitions'=8, 'topic.replicas'=1);
CREATE CHANGELOG backfill_minutes WITH ('topic.partitions'=1, 'topic.replicas'=1) AS
  SELECT window_start, window_end, url, count(*) AS visits
  FROM TUMBLE(backfill_clicks, SIZE 1 MINUTE) WITH ('source.idle.timeout.millis'=5000, 'max.records.per.batch'=400)
  GROUP BY window_start, window_end, url;

