"""Limits of requests: workers ask the owner of limits, which answers, borrows and lends."""
