"""Where accounts, their states and history, and usage outlive the process.

`base` is the port; each other module is one implementation of it.
"""
