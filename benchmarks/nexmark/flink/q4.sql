SELECT category, AVG(CAST(final AS DOUBLE)) AS average
FROM (
  SELECT a.id, a.category, MAX(b.price) AS final
  FROM bid AS b JOIN auction FOR SYSTEM_TIME AS OF b.`datetime` AS a ON b.auction = a.id
  WHERE b.`datetime` <= a.expires
  GROUP BY a.id, a.category
)
GROUP BY category
