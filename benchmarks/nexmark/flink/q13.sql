SELECT b.auction, b.bidder, b.price, b.`datetime`, s.`value`
FROM (SELECT *, MOD(auction, 10000) AS side FROM bid) b JOIN side_input s ON b.side = s.`key`
