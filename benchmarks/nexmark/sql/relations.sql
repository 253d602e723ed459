-- The auction site's three kinds of events, each in a topic of its own. Where the published queries read one stream of
-- all events and filter it, ours read the relation they mean. Names of fields are in lower case.
CREATE STORE nexmark WITH ('type' = KAFKA, 'uris' = '${NEXMARK_KAFKA:-localhost:9092}');

CREATE STREAM person (
    id BIGINT, name VARCHAR, emailaddress VARCHAR, creditcard VARCHAR, city VARCHAR, state VARCHAR,
    datetime TIMESTAMP(3), extra VARCHAR
  ) WITH ('store' = nexmark, 'topic' = 'person', 'value.format' = 'json', 'timestamp' = 'datetime',
          'topic.partitions' = 2, 'topic.replicas' = 1);

CREATE STREAM auction (
    id BIGINT, itemname VARCHAR, description VARCHAR, initialbid BIGINT, reserve BIGINT, datetime TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra VARCHAR
  ) WITH ('store' = nexmark, 'topic' = 'auction', 'value.format' = 'json', 'timestamp' = 'datetime',
          'topic.partitions' = 2, 'topic.replicas' = 1);

CREATE STREAM bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, datetime TIMESTAMP(3), extra VARCHAR
  ) WITH ('store' = nexmark, 'topic' = 'bid', 'value.format' = 'json', 'timestamp' = 'datetime',
          'topic.partitions' = 2, 'topic.replicas' = 1);

-- The same topics, read by key: a person or an auction that comes again replaces itself.
CREATE CHANGELOG persons (
    id BIGINT, name VARCHAR, emailaddress VARCHAR, creditcard VARCHAR, city VARCHAR, state VARCHAR,
    datetime TIMESTAMP(3), extra VARCHAR, PRIMARY KEY (id)
  ) WITH ('store' = nexmark, 'topic' = 'person', 'value.format' = 'json', 'timestamp' = 'datetime');

CREATE CHANGELOG auctions (
    id BIGINT, itemname VARCHAR, description VARCHAR, initialbid BIGINT, reserve BIGINT, datetime TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra VARCHAR, PRIMARY KEY (id)
  ) WITH ('store' = nexmark, 'topic' = 'auction', 'value.format' = 'json', 'timestamp' = 'datetime');

-- Bids by the moment they arrived: no 'timestamp', so the record's own one is the event time (q12).
CREATE STREAM bid_by_arrival (
    auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, datetime TIMESTAMP(3), extra VARCHAR
  ) WITH ('store' = nexmark, 'topic' = 'bid', 'value.format' = 'json');

-- What q13 looks up.
CREATE CHANGELOG side_input ("key" BIGINT, "value" VARCHAR, PRIMARY KEY ("key"))
  WITH ('store' = nexmark, 'topic' = 'side_input', 'value.format' = 'json', 'topic.partitions' = 2,
        'topic.replicas' = 1);
