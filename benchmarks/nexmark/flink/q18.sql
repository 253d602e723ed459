SELECT auction, bidder, price, channel, url, `datetime`, extra
FROM (
  SELECT auction, bidder, price, channel, url, `datetime`, extra,
         ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `datetime` DESC) AS rank_number
  FROM bid
) b
WHERE rank_number <= 1
