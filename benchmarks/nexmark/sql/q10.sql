-- Log to files: every bid with its day and minute, which name the folders of the published sink.
CREATE STREAM q10 WITH ('store' = nexmark) AS
  SELECT auction, bidder, price, datetime, extra,
         DATE_FORMAT(datetime, 'yyyy-MM-dd') AS dt, DATE_FORMAT(datetime, 'HH:mm') AS hm
  FROM bid;
