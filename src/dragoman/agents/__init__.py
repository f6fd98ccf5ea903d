"""What coding agents expect of a gateway beyond their protocols. Pure."""
