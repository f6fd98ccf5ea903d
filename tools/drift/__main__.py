"""Prints the drift of the installed SDKs. The exit status is 1 if there is any."""

from __future__ import annotations

import sys
from importlib.metadata import version

from tools.drift import find

SDKS = ("openai", "anthropic", "google-genai")


def main() -> int:
    drift = find()
    told = "\n".join(map(str, drift)) or "nothing is unaccounted for"
    versions = ", ".join(f"{name} {version(name)}" for name in SDKS)
    sys.stdout.write(f"{versions}: {len(drift)} found\n{told}\n")
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
