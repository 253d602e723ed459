-- Local item suggestion: who sells in Oregon, Idaho or California in category 10.
-- The published query joins two streams without a bound; ours joins the two changelogs, so a person who moves away takes
-- the suggestions along.
CREATE CHANGELOG q3 WITH ('store' = nexmark) AS
  SELECT p.name, p.city, p.state, a.id
  FROM auctions a JOIN persons p ON a.seller = p.id
  WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');
