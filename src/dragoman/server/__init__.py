"""The application of one process: its routes, its parts in the order they are made, its start and its end."""
