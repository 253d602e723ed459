SELECT q.category, AVG(q.final)
FROM (
  SELECT MAX(b.price) AS final, a.category
  FROM auction a, bid b
  WHERE a.id = b.auction AND b.`datetime` BETWEEN a.`datetime` AND a.expires
  GROUP BY a.id, a.category
) q
GROUP BY q.category
