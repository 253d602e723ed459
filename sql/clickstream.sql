-- The clickstream: clicks in Kafka, users in Kinesis, who clicked what from where, counted while it happens.

-- Everything of the clickstream lives here.
CREATE DATABASE clickstream_db;

USE DATABASE clickstream_db;

USE STORE prod_kafka;

-- One record per click on the web site.
-- @owner team:web
-- @group clickstream
CREATE STREAM clicks (
  event_time BIGINT,
  device_id VARCHAR,
  url VARCHAR,
  userid VARCHAR,
  ip VARCHAR
) WITH (
  'store' = 'prod_kafka',
  'topic' = 'clicks',
  'value.format' = 'json',
  'topic.partitions' = 2,
  'topic.replicas' = 1
);

-- Clicks from desktop computers only.
-- @owner team:web
-- @group clickstream
CREATE STREAM desktop_clicks AS
  SELECT * FROM clicks WHERE device_id = 'desktop';

-- How often each page was opened on each kind of device.
-- @owner team:web
-- @group clickstream
CREATE CHANGELOG url_device_click_count AS
  SELECT url, device_id, count(*) AS click_count
  FROM clicks
  GROUP BY url, device_id;

-- Registered users: the latest record of a userid counts, an empty record removes the user.
-- Holds personal data (name, email, contactinfo) that stays in this store.
-- @owner team:accounts
-- @group clickstream
CREATE CHANGELOG users (
  registertime BIGINT,
  name VARCHAR,
  email VARCHAR,
  userid VARCHAR,
  regionid VARCHAR,
  gender VARCHAR,
  interests ARRAY<VARCHAR>,
  contactinfo STRUCT<phone VARCHAR, city VARCHAR, "state" VARCHAR, zipcode VARCHAR>,
  PRIMARY KEY (userid)
) WITH ('store' = 'prod_kinesis', 'topic' = 'users', 'value.format' = 'json', 'topic.shards' = 1);

-- Every click with the version of its user that was valid at the time, without personal data.
-- @owner team:web
-- @group clickstream
CREATE STREAM user_clicks WITH ('store' = 'prod_kafka') AS
  SELECT
    u.registertime AS user_registertime,
    u.userid AS uid,
    u.regionid AS user_regionid,
    u.gender AS user_gender,
    u.interests AS user_interests,
    c.event_time AS click_time,
    c.device_id AS device_type,
    c.url AS click_url,
    c.ip AS click_location
  FROM clicks c
  JOIN users u ON c.userid = u.userid;

-- How often each page was opened from each region.
-- @owner team:analytics
-- @group clickstream
CREATE CHANGELOG url_region_click_count AS
  SELECT click_url, user_regionid, count(*) AS url_region_click_count
  FROM user_clicks
  GROUP BY click_url, user_regionid;

-- How often each page was visited; answers within a second of the visit.
-- Try: ds query "SELECT visits FROM url_visits WHERE url = './home'"
-- @owner team:web
-- @group views
CREATE MATERIALIZED VIEW url_visits AS
  SELECT url, count(*) AS visits
  FROM clicks
  GROUP BY url;

-- How often each page was visited on each kind of device.
-- @owner team:web
-- @group views
CREATE MATERIALIZED VIEW url_device_visits AS
  SELECT url, device_id, count(*) AS visits
  FROM clicks
  GROUP BY url, device_id;

-- How often each user visited the site on each kind of device.
-- Try: ds query "SELECT visits FROM user_device_visits WHERE userid = 'User_9' AND device_id = 'mobile'"
-- @owner team:web
-- @group views
CREATE MATERIALIZED VIEW user_device_visits AS
  SELECT userid, device_id, count(*) AS visits
  FROM clicks
  GROUP BY userid, device_id;

-- How often each user visited each page on each kind of device.
-- @owner team:web
-- @group views
CREATE MATERIALIZED VIEW user_url_device_visits AS
  SELECT userid, url, device_id, count(*) AS visits
  FROM clicks
  GROUP BY userid, url, device_id;
