-- User sessions: bids of a bidder until ten seconds pass without one.
CREATE CHANGELOG q11 WITH ('store' = nexmark) AS
  SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
  FROM SESSION(bid, GAP 10 SECONDS)
  GROUP BY window_start, window_end, bidder;
