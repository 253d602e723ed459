WITH won AS (
  SELECT a.seller, arg_max(b, struct_pack(price := b.price, earlier := -epoch_ms(b.datetime))) AS bid
  FROM auction a JOIN bid b ON b.auction = a.id AND b.datetime BETWEEN a.datetime AND a.expires
  GROUP BY a.id, a.seller
), last_ten AS (
  SELECT seller, max_by(bid.price, bid.datetime, 10) AS prices FROM won GROUP BY seller
)
SELECT seller, list_avg(prices) AS average FROM last_ten
