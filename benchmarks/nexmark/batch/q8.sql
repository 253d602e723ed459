SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECOND, p.datetime) AS window_start,
       time_bucket(INTERVAL 10 SECOND, p.datetime) + INTERVAL 10 SECOND AS window_end
FROM person p
WHERE EXISTS (
  FROM auction a
  WHERE a.seller = p.id
    AND time_bucket(INTERVAL 10 SECOND, a.datetime) = time_bucket(INTERVAL 10 SECOND, p.datetime)
)
