-- Average price of a category: the mean of its auctions' final prices.
-- A bid meets the auction as it was at the bid's time (temporal join), which is the published lower bound of BETWEEN.
CREATE CHANGELOG q4 WITH ('store' = nexmark) AS
  SELECT category, AVG(final) AS average
  FROM (
    SELECT a.id, a.category, MAX(b.price) AS final
    FROM bid b JOIN auctions a ON b.auction = a.id
    WHERE b.datetime <= a.expires
    GROUP BY a.id, a.category
  ) q
  GROUP BY category;
