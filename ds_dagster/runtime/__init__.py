"""Journal, reconcile loop, engines and sizes of a project; knows no Spark."""
