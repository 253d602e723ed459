"""Changes of Postgres tables for Spark: a streaming source over logical replication, as a Python data source.

``source`` knows Spark; the other modules are plain Python: ``pgoutput`` and ``tuples`` read messages of the server's
own plug-in, ``columns`` makes typed Arrow columns of texts, ``rows`` makes a relation's rows, ``server`` speaks to the
server, ``snapshot`` keeps what the tables held when the slot began.
"""
