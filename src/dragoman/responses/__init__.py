"""Responses that outlive their request: stored here, made in the background, or left to the
upstream that made them."""
