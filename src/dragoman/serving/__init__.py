"""Serving a request: its target, the attempts with accounts, and the delivery of the answer."""
