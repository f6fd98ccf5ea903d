"""The request log: its rows, and the thread that writes them."""
