"""Metrics, the request log, traces and alerts: what operators see of requests that have ended."""
