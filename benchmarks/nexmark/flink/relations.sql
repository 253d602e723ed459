-- Keys are declared since a join keeps less for each row with one, and temporal joins need them.
-- side_input has been there since before the first bid, so that a temporal join finds all of it.
CREATE TABLE person (
  id BIGINT PRIMARY KEY NOT ENFORCED, name STRING, emailaddress STRING, creditcard STRING, city STRING, state STRING,
  `datetime` TIMESTAMP(3), extra STRING,
  p_time AS PROCTIME(), WATERMARK FOR `datetime` AS `datetime` - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${lines}/person', 'format' = 'json');

CREATE TABLE auction (
  id BIGINT PRIMARY KEY NOT ENFORCED, itemname STRING, description STRING, initialbid BIGINT, reserve BIGINT,
  `datetime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING,
  p_time AS PROCTIME(), WATERMARK FOR `datetime` AS `datetime` - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${lines}/auction', 'format' = 'json');

CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `datetime` TIMESTAMP(3), extra STRING,
  p_time AS PROCTIME(), WATERMARK FOR `datetime` AS `datetime` - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${lines}/bid', 'format' = 'json');

CREATE TABLE side_input (
  `key` BIGINT PRIMARY KEY NOT ENFORCED, `value` STRING, since AS TO_TIMESTAMP('2000-01-01 00:00:00'),
  WATERMARK FOR since AS since
) WITH ('connector' = 'filesystem', 'path' = '${lines}/side_input', 'format' = 'json');
