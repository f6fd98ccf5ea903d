"""Metrics and time series: what a worker counts, and how it is exposed."""
