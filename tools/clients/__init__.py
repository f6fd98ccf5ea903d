"""Programs that run real clients: what they send, and how they take broken answers."""
