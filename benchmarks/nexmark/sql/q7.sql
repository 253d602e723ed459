-- Highest bid of every ten seconds.
-- The published query joins bids with the maximum and then compares times; ours joins inside of the window.
CREATE STREAM q7 WITH ('store' = nexmark) AS
  SELECT b.auction, b.price, b.bidder, b.datetime, b.extra
  FROM (
    SELECT window_start, window_end, auction, price, bidder, datetime, extra FROM TUMBLE(bid, SIZE 10 SECONDS)
  ) b JOIN (
    SELECT window_start, window_end, MAX(price) AS maxprice
    FROM TUMBLE(bid, SIZE 10 SECONDS)
    GROUP BY window_start, window_end
  ) m ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.maxprice;
