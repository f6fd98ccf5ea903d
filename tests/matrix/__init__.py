"""The nine cells, judged by the vendors' own SDKs over real sockets."""
