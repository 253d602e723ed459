"""Questions about records that queries left out (``ds redrive``) and about differences of versions (``ds diff``)."""
