"""One process that plans for all Python data sources of an engine.

Spark starts a Python process for each streaming source, which imports PySpark, PyArrow and the source before its first
answer, and keeps its own copy of them. Here ``shared`` gives Spark a program that starts Python for everything else,
and sends requests for such a process through ``hand_over`` to ``server``, which has imported everything once and forks.
A fork shares the server's memory and is still a process of its own: Spark's code runs in it unchanged, and it ends with
its query. Daemons, which fork Spark's workers, are forks of the server, too: Spark has one for each kind of work, such
as writing to a Python sink. If the server does not answer, Spark gets a process as always.
"""
