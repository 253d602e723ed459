-- Selection: bids on some auctions.
CREATE STREAM q2 WITH ('store' = nexmark) AS
  SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;
