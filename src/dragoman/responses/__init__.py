"""Responses that outlive their request: kept here, made in the background, or left to the upstream
that made them."""
