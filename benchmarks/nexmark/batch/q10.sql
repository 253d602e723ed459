SELECT auction, bidder, price, datetime, extra, strftime(datetime, '%Y-%m-%d') AS dt, strftime(datetime, '%H:%M') AS hm
FROM bid
