SELECT b.auction, b.price, b.bidder, b.`datetime`, b.extra
FROM bid b JOIN (
  SELECT MAX(price) AS maxprice, window_end AS `datetime`
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`datetime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) m ON b.price = m.maxprice
WHERE b.`datetime` BETWEEN m.`datetime` - INTERVAL '10' SECOND AND m.`datetime`
