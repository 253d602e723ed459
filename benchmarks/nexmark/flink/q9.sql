SELECT id, itemname, description, initialbid, reserve, `datetime`, expires, seller, category, extra,
       auction, bidder, price, bid_datetime, bid_extra
FROM (
  SELECT a.id, a.itemname, a.description, a.initialbid, a.reserve, a.`datetime`, a.expires, a.seller, a.category, a.extra,
         b.auction, b.bidder, b.price, b.`datetime` AS bid_datetime, b.extra AS bid_extra,
         ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`datetime` ASC) AS rownum
  FROM bid AS b JOIN auction FOR SYSTEM_TIME AS OF b.`datetime` AS a ON b.auction = a.id
  WHERE b.`datetime` <= a.expires
)
WHERE rownum <= 1
