-- every bid is in the five windows that begin in the ten seconds up to it
WITH starts AS (
  SELECT auction, make_timestamp((epoch_ms(datetime) // 2000 - back) * 2000000) AS window_start
  FROM bid, range(5) AS hops(back)
), counts AS (
  SELECT window_start, auction, count(*) AS num FROM starts GROUP BY ALL
)
SELECT window_start, window_start + INTERVAL 10 SECOND AS window_end, auction, num
FROM counts
QUALIFY rank() OVER (PARTITION BY window_start ORDER BY num DESC) = 1
