"""Makers of price tables from the published lists of others."""
