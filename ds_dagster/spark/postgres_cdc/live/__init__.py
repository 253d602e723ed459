"""One replication session for all queries over a database: the server decodes its log once, and so do we.

Each query keeps its own slot and publication; they are its durable position. Next to them, one process of the planner
(``hub``) reads one session on a temporary slot with the publications of all queries that have joined (``session``),
and keeps the transactions in memory (``buffer``) until the queries have committed them. A query joins when it has read
its own slot to the end (``following``). From then on the hub reports each transaction of its tables, and tasks fetch
the changes from it (``wire``).

The session is a cache. If it ends, loses transactions of a query because memory is full, or does not answer, the query
reads its own slot, which is advanced only to what the checkpoint has committed.
"""
