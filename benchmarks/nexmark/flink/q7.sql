SELECT b.auction, b.price, b.bidder, b.`datetime`, b.extra
FROM (
  SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`datetime`), INTERVAL '10' SECOND))
) AS b JOIN (
  SELECT window_start, window_end, MAX(price) AS maxprice
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`datetime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS m ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.maxprice
