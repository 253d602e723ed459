SELECT auction, bidder, price, datetime, value FROM bid JOIN side_input ON key = auction % 10000
