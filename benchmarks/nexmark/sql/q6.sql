-- Average selling price of a seller: the mean price of the ten auctions won last.
-- The published text wants OVER ten rows of a changelog, which Flink refuses too; this is the form of the paper: the last
-- ten per seller, then the mean of them.
CREATE CHANGELOG q6 WITH ('store' = nexmark) AS
  SELECT seller, AVG(final) AS average
  FROM (
    SELECT seller, final, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY datetime DESC) AS place
    FROM (
      SELECT a.id, a.seller, b.price AS final, b.datetime AS datetime,
             ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.datetime ASC) AS rownum
      FROM bid b JOIN auctions a ON b.auction = a.id
      WHERE b.datetime <= a.expires
    ) bids
    WHERE rownum <= 1
  ) won
  WHERE place <= 10
  GROUP BY seller;
