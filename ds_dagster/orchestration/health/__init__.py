"""Health of assets: verdicts, freshness, the incident log, and the sensor that reports them."""
