"""How fast it is: ours against hand-written PySpark and the servers' own tools, as ratios. ``python -m benchmarks``."""
