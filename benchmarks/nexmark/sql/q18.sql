-- Last bid: the newest bid of every bidder on every auction.
CREATE CHANGELOG q18 WITH ('store' = nexmark) AS
  SELECT auction, bidder, price, channel, url, datetime, extra
  FROM (
    SELECT auction, bidder, price, channel, url, datetime, extra,
           ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY datetime DESC) AS rank_number
    FROM bid
  ) b
  WHERE rank_number <= 1;
