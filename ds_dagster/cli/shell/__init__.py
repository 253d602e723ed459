"""``ds sql``: statements that are answered at once, and the shell around them."""
