"""The decisions of the pool: which account serves a request, and what an outcome means. Pure."""
