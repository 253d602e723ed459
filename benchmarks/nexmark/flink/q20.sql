SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.`datetime`, b.extra, a.itemname, a.description, a.initialbid,
       a.reserve, a.`datetime` AS auction_datetime, a.expires, a.seller, a.category, a.extra AS auction_extra
FROM bid AS b JOIN auction FOR SYSTEM_TIME AS OF b.`datetime` AS a ON b.auction = a.id
WHERE a.category = 10
