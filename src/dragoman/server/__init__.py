"""The application of one process: its routes and its parts, how it starts and how it ends."""
