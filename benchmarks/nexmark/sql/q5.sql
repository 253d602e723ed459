-- Hot items: the auctions with the most bids of the last ten seconds, every two seconds.
CREATE STREAM q5 WITH ('store' = nexmark) AS
  SELECT b.window_start, b.window_end, b.auction, b.num
  FROM (
    SELECT window_start, window_end, auction, COUNT(*) AS num
    FROM HOP(bid, SIZE 10 SECONDS, ADVANCE BY 2 SECONDS)
    GROUP BY window_start, window_end, auction
  ) b JOIN (
    SELECT window_start, window_end, MAX(num) AS maxn
    FROM (
      SELECT window_start, window_end, auction, COUNT(*) AS num
      FROM HOP(bid, SIZE 10 SECONDS, ADVANCE BY 2 SECONDS)
      GROUP BY window_start, window_end, auction
    ) c
    GROUP BY window_start, window_end
  ) m ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.num = m.maxn;
