-- New users: who came and opened an auction in the same ten seconds.
CREATE STREAM q8 WITH ('store' = nexmark) AS
  SELECT p.id, p.name, p.window_start, p.window_end
  FROM (
    SELECT window_start, window_end, id, name
    FROM TUMBLE(person, SIZE 10 SECONDS)
    GROUP BY window_start, window_end, id, name
  ) p JOIN (
    SELECT window_start, window_end, seller
    FROM TUMBLE(auction, SIZE 10 SECONDS)
    GROUP BY window_start, window_end, seller
  ) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;
