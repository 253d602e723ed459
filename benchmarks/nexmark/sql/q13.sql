-- Bounded side input: every bid with a value looked up by its auction.
-- As in the published query the newest value known counts, whatever the bid's time.
CREATE STREAM q13 WITH ('store' = nexmark) AS
  SELECT b.auction, b.bidder, b.price, b.datetime, s."value" AS "value"
  FROM (SELECT auction, bidder, price, datetime, MOD(auction, 10000) AS side FROM bid) b
  JOIN side_input s ON b.side = s."key"
  QUERY WITH ('temporal.join.mode' = 'immediate');
