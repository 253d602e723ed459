"""Changes of Postgres tables for Spark: a streaming source over logical replication, as a Python data source.

``source`` uses Spark; the other modules are plain Python: ``pgoutput`` and ``tuples`` parse messages of the server's
own plug-in, ``columns`` converts texts to typed Arrow columns, ``rows`` builds a relation's rows, ``server`` sends
requests to the server, ``snapshot`` copies the tables' rows of the time when the slot began.
"""
