"""Programs that put a gateway under load, harm or failures, for minutes or hours."""
