WITH marked AS (
  SELECT bidder, datetime, coalesce(datetime - lag(datetime) OVER by_time > INTERVAL 10 SECOND, true) AS is_first
  FROM bid
  WINDOW by_time AS (PARTITION BY bidder ORDER BY datetime)
), numbered AS (
  SELECT bidder, datetime, sum(is_first::INTEGER) OVER (PARTITION BY bidder ORDER BY datetime) AS session FROM marked
)
SELECT bidder, count(*) AS bid_count, min(datetime) AS window_start, max(datetime) + INTERVAL 10 SECOND AS window_end
FROM numbered
GROUP BY bidder, session
