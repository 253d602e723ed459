-- Bids with their auction, in category 10.
-- The published query joins without a bound and so also finds auctions that open behind the bid; in ours a bid meets the
-- auction as it was at the bid's time.
CREATE STREAM q20 WITH ('store' = nexmark) AS
  SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.datetime AS bid_datetime, b.extra AS bid_extra,
         a.itemname, a.description, a.initialbid, a.reserve, a.datetime AS auction_datetime, a.expires, a.seller,
         a.category, a.extra AS auction_extra
  FROM bid b JOIN auctions a ON b.auction = a.id
  WHERE a.category = 10;
