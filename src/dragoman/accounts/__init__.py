"""The pool of upstream accounts: which one serves a request, and what its answer says of it.

`decisions`, `rules`, `rotation` and what they are made of are pure: the time is an argument,
and they perform no I/O. `pool` is the shell that keeps their state in the process and hands out
leases; `sync` exchanges that state with a store, whose port is `store`.
"""
