SELECT auction, price, bidder, datetime, extra
FROM bid
QUALIFY price = max(price) OVER (PARTITION BY epoch_ms(datetime) // 10000)
