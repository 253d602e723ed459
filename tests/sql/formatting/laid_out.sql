-- What it is.
CREATE STREAM s (
  a VARCHAR NOT NULL,  -- beside a
  -- above b
  b BIGINT COMMENT 'x',
  c ARRAY<STRUCT<x INT, y MAP<VARCHAR, BIGINT>>>,
  "Date" DATE,
  CONSTRAINT ok CHECK (b > 0) ON VIOLATION WARN
) WITH ('store' = 'k', 'topic' = 's', 'timestamp' = 'b');  -- after s

CREATE STREAM t AS
  WITH q AS (
    SELECT a, count(*) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS n
    FROM s
  )
  SELECT a->b AS x, -1 AS m, a - -1 AS z, x.y[1] AS w, a || 'x' AS v  -- last
  FROM s
  LEFT JOIN q WITHIN 5 MINUTES ON s.a = q.a
    AND s.b BETWEEN 1 AND 2
    AND (s.c = 1 OR s.eeeeeeeeeeeeeeeeeeeeeeeee = 3 OR 1 = 4)
  WHERE a IN (SELECT a FROM s)
    AND b = /* now */ current_timestamp
  PARTITION BY a
  QUERY WITH ('state.ttl.millis' = 1);
BEGIN APPLICATION visits
  CREATE VIRTUAL STREAM valid AS
    SELECT * FROM s WHERE a IS NOT NULL;
  INSERT INTO t
    SELECT a
    FROM valid
    UNION ALL (SELECT b FROM s);
END APPLICATION;
USE STORE k;
USE DATABASE d;
CREATE STORE n WITH (
  'type' = KINESIS,
  'access_region' = "AWS us-east-1"
);
CREATE STREAM p AS
  SELECT
    CASE
      WHEN aaaaaaaaaaaaaaaaaaaaaaaaaaaa > 1 THEN 'xxxxxxxxxxxxxxxxxxxx'
      WHEN bbbbbbbbbbbbbbbbbb < 2 THEN 'y'
      ELSE 'z'
    END AS kind,
    left(a, 2) AS l
  FROM s
    -- the end
    ;
PRINT topic s WITH ('from_beginning');  /* a */  /* b */
VALUES
  (1, 'a'),  -- one
  (2, 'b');
