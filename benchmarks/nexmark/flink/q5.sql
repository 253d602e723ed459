SELECT bids.auction, bids.num
FROM (
  SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`datetime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
) AS bids JOIN (
  SELECT MAX(counted.num) AS maxn, counted.starttime, counted.endtime
  FROM (
    SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`datetime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
  ) AS counted
  GROUP BY counted.starttime, counted.endtime
) AS most ON bids.starttime = most.starttime AND bids.endtime = most.endtime AND bids.num >= most.maxn
