"""Operation: metrics, usage, probes of accounts, the admin API."""
