"""How hard the properties are tried: a little on every run, with the same examples where CI is set.

DRAGOMAN_EXAMPLES sets another number of examples.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "properties",
    max_examples=int(os.environ.get("DRAGOMAN_EXAMPLES") or 30),
    derandomize=bool(os.environ.get("CI")),
    # Times differ from machine to machine and say nothing about correctness.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("properties")
