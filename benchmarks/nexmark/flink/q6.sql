SELECT q.seller, AVG(q.final) OVER (PARTITION BY q.seller ORDER BY q.`datetime` ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY id, seller ORDER BY final DESC) AS rownum
  FROM (
    SELECT a.id, a.seller, b.price AS final, b.`datetime`
    FROM auction a, bid b
    WHERE a.id = b.auction AND b.`datetime` BETWEEN a.`datetime` AND a.expires
  )
) q
WHERE rownum <= 1
