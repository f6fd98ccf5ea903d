"""How much keys and teams may use: rules, windows, counters and what is reserved."""
