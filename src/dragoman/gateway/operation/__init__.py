"""What operators see and do: metrics, usage, probes of accounts, the admin API."""
