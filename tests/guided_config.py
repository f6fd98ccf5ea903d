"""A configuration that guides are made of, and the file in what they print."""

from __future__ import annotations

import re

ROUTED = """
[server]
host = "0.0.0.0"
port = {port}
[[clients]]
name = "tester"
key = "{key}"
[[upstreams]]
name = "up"
protocol = "openai_chat"
base_url = "{upstream}"
[[accounts]]
name = "one"
upstream = "up"
key = "sk-sim-one"
[[routes]]
match = "large"
upstream = "up"
model = "sim-text"
capabilities = {{ context_window = 64000, max_output_tokens = 4000 }}
[[routes]]
match = "small"
upstream = "up"
model = "sim-text"
[[routes]]
match = "any-*"
upstream = "up"
"""


def json_in(printed: str) -> str:
    (found,) = re.findall(r"^\{.*?^\}", printed, re.DOTALL | re.MULTILINE)
    assert isinstance(found, str)
    return found
