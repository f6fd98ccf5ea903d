"""A connection to PostgreSQL, and how it is ended when the server no longer answers."""

from __future__ import annotations

import logging
import os
import select
import socket
from contextlib import suppress
from typing import Any

import psycopg

from dragoman.config import Secret

# It warns of each lost connection; the caller logs that once.
logging.getLogger("psycopg").setLevel(logging.ERROR)

Link = psycopg.Connection[Any]


Url = str | Secret
"""The URL of a database. That of a secret in a file is read anew for each connection, so that its
password can be changed."""


def linked(url: Url, name: str) -> Link:
    """A connection to the database of `url`, with `name` as its application name.

    No statement is prepared in the server, since the next may go over another connection; a network
    that drops all packets is given up after three seconds.

    Raises:
        psycopg.Error: it cannot be opened.
    """
    return psycopg.connect(
        url.reread() if isinstance(url, Secret) else url,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=2,
        tcp_user_timeout=3000,
        client_encoding="utf8",
        application_name=name,
    )


def is_quiet(link: Link) -> bool:
    """Whether the server has sent nothing unrequested, as it does when it ends."""
    found = select.poll()
    found.register(link.fileno(), select.POLLIN)
    return not found.poll(0)


def cut(link: Link) -> None:
    """End a connection that another thread waits for. A hanging server keeps its connections, so no
    network timeout ends them."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(link.fileno())) as found:
        found.shutdown(socket.SHUT_RDWR)
