"""Decisions about credentials, without I/O: time and random numbers are arguments."""
