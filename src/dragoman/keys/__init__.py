"""Who may call: client keys and teams. Pure: the time and what is stored are arguments."""
