"""``ds sql``: executors of its statements, and the interactive shell."""
