"""What SIGHUP does: reads anew what can be, and never ends anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

Reload = Callable[[], str]
"""Reads one thing anew, whole or not at all, and returns what it was, in words for the log.

Raises OSError or ValueError if it cannot be used; then all is as before."""

_log = logging.getLogger("dragoman.gateway")


def reload_all(reloads: Sequence[Reload]) -> None:
    """Run each of `reloads`; one line of the log tells what was done."""
    done: list[str] = []
    failed: list[str] = []
    for reload in reloads:
        try:
            done.append(reload())
        except (OSError, ValueError) as error:
            failed.append(str(error))
    if failed:
        kept = "; ".join(failed)
        _log.error("reload: %s; kept as it was: %s", ", ".join(done) or "nothing read anew", kept)
    elif done:
        _log.info("reload: read anew: %s", ", ".join(done))
    else:
        _log.info("reload: nothing that could be read anew; other settings need a restart")
