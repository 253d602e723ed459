SELECT DISTINCT ON (bidder, auction) auction, bidder, price, channel, url, datetime, extra
FROM bid
ORDER BY bidder, auction, datetime DESC
