SELECT auction, bidder, price, `datetime`, extra, DATE_FORMAT(`datetime`, 'yyyy-MM-dd'), DATE_FORMAT(`datetime`, 'HH:mm')
FROM bid
