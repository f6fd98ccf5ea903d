"""Metrics, the log of requests, traces and alerts: what operators see of requests that have ended."""
