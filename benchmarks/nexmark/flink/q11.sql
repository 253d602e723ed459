SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`datetime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
