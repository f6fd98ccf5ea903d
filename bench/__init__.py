"""Measures what the gateway costs. Run as ``python -m bench``; not part of the wheel."""
