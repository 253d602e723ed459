SELECT bidder, count(*) AS bid_count, time_bucket(INTERVAL 10 SECOND, arrival) AS window_start,
       time_bucket(INTERVAL 10 SECOND, arrival) + INTERVAL 10 SECOND AS window_end
FROM bid
GROUP BY ALL
