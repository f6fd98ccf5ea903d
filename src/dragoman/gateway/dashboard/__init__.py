"""The dashboard at `/ui`: static files that show what the administration tells.

It has no data of its own: the page asks the paths below `/admin`, with the cookie of a session.
"""
