"""Questions: a SELECT that is answered once from views and tables, or record by record from streams and changelogs.

A question is bound by the dialect's own binder. What a store answers fast (columns, comparisons with constants, a
limit) is read from it as Arrow; DuckDB computes the rest.
"""
