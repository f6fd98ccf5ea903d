"""The log of requests: what is told of each, and the thread that writes it down."""
