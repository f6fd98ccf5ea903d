"""Traces of requests, made when a request has ended and sent outside of its way."""
