SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.datetime AS bid_datetime, b.extra AS bid_extra,
       a.itemname, a.description, a.initialbid, a.reserve, a.datetime AS auction_datetime, a.expires, a.seller, a.category,
       a.extra AS auction_extra
FROM auction a JOIN bid b ON a.id = b.auction
WHERE a.category = 10 AND a.datetime <= b.datetime
