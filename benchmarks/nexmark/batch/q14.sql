SELECT auction, bidder, euros AS price,
       CASE
         WHEN hour(datetime) BETWEEN 8 AND 18 THEN 'dayTime'
         WHEN hour(datetime) IN (7, 19) THEN 'otherTime'
         ELSE 'nightTime'
       END AS bidtimetype,
       datetime, extra, length(regexp_replace(extra, '[^c]', '', 'g')) AS c_counts
FROM (SELECT *, (price * 908)::DECIMAL(23, 3) / 1000 AS euros FROM bid)
WHERE euros > 1000000 AND euros < 50000000
