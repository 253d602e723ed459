-- Pass through: every bid.
CREATE STREAM q0 WITH ('store' = nexmark) AS
  SELECT auction, bidder, price, datetime, extra FROM bid;
