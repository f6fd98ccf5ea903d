"""Who works at a terminal of this machine."""

from __future__ import annotations

import getpass
import os
import socket

from dragoman.audit import Actor


def this_user() -> Actor:
    """The user of this process, by name, at this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Actor(f"{user}@{socket.gethostname()}", "command")
