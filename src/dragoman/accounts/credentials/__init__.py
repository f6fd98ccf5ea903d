"""Credentials of accounts that are no plain key: signatures, and tokens that expire.

`decide` is pure: signing, the making and reading of requests for tokens, and when a token is
refreshed. The modules beside it do the I/O: see `dragoman.accounts.credentials.authorising` for how
a request is authorised.
"""
