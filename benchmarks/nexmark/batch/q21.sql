WITH known(name, id) AS (VALUES ('apple', '0'), ('google', '1'), ('facebook', '2'), ('baidu', '3')), found AS (
  SELECT auction, bidder, price, channel,
         coalesce(id, CASE WHEN contains(url, 'channel_id=') THEN split_part(split_part(url, 'channel_id=', 2), '&', 1) END)
           AS channel_id
  FROM bid LEFT JOIN known ON name = lower(channel)
)
FROM found WHERE channel_id IS NOT NULL
