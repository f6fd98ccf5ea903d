"""A gateway under attack: upstreams that misbehave on purpose, and load."""
