SELECT DISTINCT ON (a.id) a.* EXCLUDE (arrival), b.auction, b.bidder, b.price, b.datetime AS bid_datetime, b.extra AS bid_extra
FROM auction a JOIN bid b ON b.auction = a.id AND b.datetime BETWEEN a.datetime AND a.expires
ORDER BY a.id, b.price DESC, b.datetime
