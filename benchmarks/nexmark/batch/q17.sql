SELECT auction, datetime::DATE::VARCHAR AS day, count(*) AS total_bids,
       sum((price < 10000)::INTEGER)::BIGINT AS rank1_bids,
       sum((price >= 10000 AND price < 1000000)::INTEGER)::BIGINT AS rank2_bids,
       sum((price >= 1000000)::INTEGER)::BIGINT AS rank3_bids,
       min(price) AS min_price, max(price) AS max_price, mean(price) AS avg_price, sum(price)::BIGINT AS sum_price
FROM bid
GROUP BY ALL
