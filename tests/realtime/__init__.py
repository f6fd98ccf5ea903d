"""Realtime passed through, against the simulated vendor."""
