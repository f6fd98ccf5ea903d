"""Whose the files of a store are."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dragoman.accounts.store import Batch, StoreError
from dragoman.limits.counters import CounterState
from dragoman.storage.limit_states import LimitStates
from dragoman.storage.request_log import RequestLogFiles
from dragoman.storage.series import SeriesFile
from dragoman.storage.sessions import Session, SessionFile
from dragoman.storage.sqlite import SqliteStore

NOBODY = 65534


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that everybody may write to, as /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def use(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.exchange("w", Batch(), 0)


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o622])
def test_a_store_that_others_may_write_is_closed_to_them(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    use(path)
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        use(path)
    assert path.stat().st_mode & 0o777 == mode & ~0o022
    assert f"{path}: others could write to it" in caplog.text
    caplog.clear()
    use(path)
    assert caplog.text == ""


def test_a_link_in_a_shared_folder_is_not_followed(tmp_path: Path, shared: Path) -> None:
    target = tmp_path / "elsewhere.db"
    (shared / "store.db").symlink_to(target)
    with pytest.raises(StoreError, match="is a link in a folder that others may write to"):
        use(shared / "store.db")
    assert not target.exists()
    (tmp_path / "store.db").symlink_to(target)
    use(tmp_path / "store.db")  # nobody else can have put it there
    assert target.exists()


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_nor_is_one_beside_it(tmp_path: Path, shared: Path, ending: str) -> None:
    (shared / f"store.db{ending}").symlink_to(tmp_path / "target")
    with pytest.raises(StoreError, match="is a link"):
        use(shared / "store.db")
    assert not (tmp_path / "target").exists()


def test_other_files_of_a_gateway_are_no_links_either(tmp_path: Path, shared: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for name in ("series", "sessions", "limits", "requests"):
        (shared / name).symlink_to(target / name)
    for draft in (f"sessions.{os.getpid()}", f"limits-{os.getpid()}"):
        (shared / draft).symlink_to(target / draft)
    (target / "requests").mkdir()
    with pytest.raises(OSError, match="is a link"):
        SeriesFile(shared / "series").write(0, {})
    sessions = SessionFile(str(shared / "sessions"))
    assert sessions.changed() is None
    sessions.write({b"x": Session("a", b"m", 0.0, 0.0)})
    LimitStates(str(shared / "limits")).write({"a": CounterState(0, {0: 1})})
    with pytest.raises(OSError, match="is a link"):
        RequestLogFiles(shared / "requests", 1.0, 1000).write([], {})
    assert [path.name for path in target.rglob("*")] == ["requests"]


def needs_root() -> None:
    if os.geteuid():
        pytest.skip("only root can make files of others")


def test_a_file_of_somebody_else_in_a_shared_folder_is_not_used(shared: Path) -> None:
    needs_root()
    path = shared / "store.db"
    use(path)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(StoreError, match="is of nobody, in a folder that others may write to"):
        use(path)


def test_a_file_of_somebody_else_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    needs_root()
    path = tmp_path / "store.db"
    use(path)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o666)
    with pytest.raises(StoreError, match=r"everybody may write to it, and it is of nobody \(mode"):
        use(path)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_what_may_not_be_opened_says_whose_it_is(mode: int) -> None:
    needs_root()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        use(path)
        path.chmod(mode)
        os.chmod(folder, 0o755)
        os.seteuid(NOBODY)
        try:
            with pytest.raises(StoreError) as told:
                use(path)
        finally:
            os.seteuid(0)
    assert f"it is of root (mode {mode:04o}), and this is nobody" in str(told.value)


def test_a_folder_in_the_place_of_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened: it is no file"):
        use(tmp_path)
