SELECT auction, bidder, (price * 908)::DECIMAL(23, 3) / 1000 AS price, datetime, extra FROM bid
