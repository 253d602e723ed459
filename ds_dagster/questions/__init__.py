"""Questions: a SELECT that is answered once from views and tables, or record by record from streams and changelogs.

The dialect's own binder binds a question. Stores select columns, compare with constants and apply a limit, and return
Arrow; DuckDB computes the rest.
"""
