WITH ranked AS (
  SELECT *, datetime::DATE::VARCHAR AS day, strftime(datetime, '%H:%M') AS minute,
         CASE WHEN price < 10000 THEN 1 WHEN price < 1000000 THEN 2 ELSE 3 END AS rank
  FROM bid
)
SELECT channel, day, max(minute) AS minute, count(*) AS total_bids,
       countif(rank = 1) AS rank1_bids, countif(rank = 2) AS rank2_bids, countif(rank = 3) AS rank3_bids,
       count(DISTINCT bidder) AS total_bidders,
       count(DISTINCT if(rank = 1, bidder, NULL)) AS rank1_bidders,
       count(DISTINCT if(rank = 2, bidder, NULL)) AS rank2_bidders,
       count(DISTINCT if(rank = 3, bidder, NULL)) AS rank3_bidders,
       count(DISTINCT auction) AS total_auctions,
       count(DISTINCT if(rank = 1, auction, NULL)) AS rank1_auctions,
       count(DISTINCT if(rank = 2, auction, NULL)) AS rank2_auctions,
       count(DISTINCT if(rank = 3, auction, NULL)) AS rank3_auctions
FROM ranked
GROUP BY channel, day
