WITH best AS (
  SELECT auction, list(b ORDER BY b.price DESC, b.datetime)[:10] AS bids
  FROM bid b GROUP BY auction
), placed AS (
  SELECT unnest(bids) AS b, generate_subscripts(bids, 1) AS rank_number FROM best
)
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.datetime, b.extra, rank_number FROM placed
