-- Processing time windows: bids of a bidder in every ten seconds of arrival.
-- The published query asks the wall clock of the machine that runs it, so no two runs agree. Ours takes the moment the
-- record arrived in the topic, which is the dialect's default event time and has one answer.
CREATE CHANGELOG q12 WITH ('store' = nexmark) AS
  SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
  FROM TUMBLE(bid_by_arrival, SIZE 10 SECONDS)
  GROUP BY window_start, window_end, bidder;
