"""Values of the dialect in Python: casts, times and JSON, as questions compute them."""
