SELECT auction, bidder, price, channel, url, `datetime`, extra, rank_number
FROM (
  SELECT auction, bidder, price, channel, url, `datetime`, extra,
         ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid
) b
WHERE rank_number <= 10
