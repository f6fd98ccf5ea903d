"""Whose the files of a store are, and why one cannot be opened."""

from __future__ import annotations

import logging
import os
import pwd
import stat
from errno import EPERM
from pathlib import Path

_log = logging.getLogger("dragoman.storage")

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def guard(path: str | os.PathLike[str]) -> None:
    """Check that a file or folder, if there is one, is not one that other users could have put
    there or can write to. What is this user's own is closed to them, with a line in the log.

    Raises:
        OSError: it is not to be used; `strerror` says why.
    """
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            if _is_shared(path):
                raise PermissionError(EPERM, "is a link in a folder that others may write to")
            found = os.stat(path)
    except FileNotFoundError:
        return
    me = os.geteuid()
    if found.st_uid not in (me, 0) and _is_shared(path):
        reason = f"is of {_user(found.st_uid)}, in a folder that others may write to"
        raise PermissionError(EPERM, reason)
    if found.st_uid == me and found.st_mode & _OTHERS_WRITE:
        os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
        _log.warning("%s: others could write to it, and cannot any more", path)
    elif found.st_mode & stat.S_IWOTH:
        raise PermissionError(
            EPERM, f"everybody may write to it, and it is of {_description(found)}"
        )


def reason_against(path: Path) -> str:
    """What keeps this process from opening or writing to a file, as far as its owner and
    permissions, or those of its folder, tell."""
    for one in (path, path.parent):
        try:
            found = one.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f": {error.strerror}"
        if one == path and not stat.S_ISREG(found.st_mode):
            return ": it is no file"
        if not os.access(one, os.R_OK | os.W_OK, effective_ids=True):
            what = "it" if one == path else "its folder"
            return f": {what} is of {_description(found)}, and this is {_user(os.geteuid())}"
    return ""


def _is_shared(path: str | os.PathLike[str]) -> bool:
    """Whether everybody may write to the folder of a file."""
    return bool(os.stat(Path(path).parent).st_mode & stat.S_IWOTH)


def _description(found: os.stat_result) -> str:
    return f"{_user(found.st_uid)} (mode {stat.S_IMODE(found.st_mode):04o})"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
