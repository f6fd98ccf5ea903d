"""What an operator can do with accounts: the one place behind the command line and the admin API."""
