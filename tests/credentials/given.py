"""What tests of credentials are given: a configuration, and the vendor's test vectors."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = json.loads(Path(__file__).with_name("sigv4.json").read_bytes())
NOW = datetime.fromisoformat(FACTS["time"]).timestamp()


def config(
    credentials: str,
    more: str = "",
    base_url: str = "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic",
) -> str:
    return f"""
[[upstreams]]
name = "cloud"
protocol = "anthropic_messages"
base_url = "{base_url}"

[[accounts]]
name = "one"
upstream = "cloud"
credentials = {{ {credentials} }}
{more}
"""
