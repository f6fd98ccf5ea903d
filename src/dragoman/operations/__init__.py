"""What an operator can do with accounts: one implementation for the command line and the admin API.

`drafts` and `rows` read what somebody wrote, `views` say what is known, `service` does it.
"""
