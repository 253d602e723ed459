"""Statement → plan: FROM, WHERE, GROUP BY, HAVING, the SELECT list, the sink."""
