"""SQL test cases: the real compiler and the real Spark plan over stores in memory."""
