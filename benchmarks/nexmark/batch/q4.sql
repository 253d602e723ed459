WITH sold AS (
  SELECT DISTINCT ON (a.id) a.id, a.category, b.price
  FROM bid b, auction a
  WHERE b.auction = a.id AND b.datetime BETWEEN a.datetime AND a.expires
  ORDER BY a.id, b.price DESC
)
SELECT category, sum(price)::DOUBLE / count(*) AS average FROM sold GROUP BY category
