-- Top ten bids of every auction. Of equal prices the earlier bid comes first; the published query leaves it open.
CREATE CHANGELOG q19 WITH ('store' = nexmark) AS
  SELECT auction, bidder, price, channel, url, datetime, extra, rank_number
  FROM (
    SELECT auction, bidder, price, channel, url, datetime, extra,
           ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, datetime ASC) AS rank_number
    FROM bid
  ) b
  WHERE rank_number <= 10;
