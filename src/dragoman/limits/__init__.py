"""Limits of keys, teams and accounts: how much may be used, by whom, within what time.

    rules      what a request counts at each limit of its caller       in every worker
    messages   what workers ask and report                             between the two
    owner      admits requests at all of their limits, or at none      one on each machine
    balances   what is used, reserved and left of one limit            in the owner
    counters   what was used within a window
    ledgers    what one limit has lent to several machines             in PostgreSQL

A limit has one owner: the process itself where it is the only one, else the supervisor of the
workers; where several machines share a database, each of these borrows from a ledger there and
lends on to its workers. Each level takes from the next, spends, reports, and gives back.

Everything here is pure: there is no input or output, and the time is an argument.
"""
