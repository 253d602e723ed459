SELECT b.auction, b.bidder, b.price, b.`datetime`, s.`value`
FROM (SELECT *, MOD(auction, 10000) AS side FROM bid) AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.`datetime` AS s ON b.side = s.`key`
