-- Tables in the warehouse, loaded when their asset is materialized.

USE DATABASE clickstream_db;

-- Clicks per page and region for reports; each load brings what changed since the last one.
-- @owner team:analytics
-- @group warehouse
CREATE TABLE region_clicks WITH ('store' = 'warehouse', 'refresh.mode' = 'incremental') AS
  SELECT click_url, user_regionid, url_region_click_count
  FROM url_region_click_count;
