"""The upstream that stores responses itself."""

from __future__ import annotations

UPSTREAM = """
[[upstreams]]
name = "native"
protocol = "openai_responses"
base_url = "{base_url}"
stored_responses = "pass"
"""
ACCOUNT = """
[[accounts]]
name = "{key}"
upstream = "native"
key = "{key}"
"""
