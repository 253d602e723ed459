-- Currency conversion: every bid's price in euros.
CREATE STREAM q1 WITH ('store' = nexmark) AS
  SELECT auction, bidder, 0.908 * price AS price, datetime, extra FROM bid;
