"""The SQLite file: how it is made, what becomes of it, and what goes wrong with disks."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.accounts.decide.states import Disabled, Transition
from dragoman.accounts.store import Batch, Changes, Definition, StoreError, UsageCount, UsageKey
from dragoman.storage import schema
from dragoman.storage.sqlite import SqliteStore
from dragoman.storage.sqlite_schema import SQLITE
from dragoman.storage.tables.table import Column, make_table
from dragoman.storage.tables.usage import USAGE

KEY = UsageKey(0, "a", "me", "m", "/v1/messages")
ONE = Batch(usage={KEY: UsageCount(requests=1)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def requests(store: SqliteStore) -> int:
    found = store.usage(0, 1).get(KEY)
    return 0 if found is None else found.requests


def big(count: int) -> Batch:
    """A batch that needs many pages."""
    return Batch(
        usage={
            UsageKey(0, f"{number}" * 40, "me", "m", "/"): UsageCount(1) for number in range(count)
        }
    )


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "made" / "with" / "it" / "store.db")
        store.exchange("w", ONE, 0)
        directory = tmp_path / "made" / "with" / "it"
        modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in directory.iterdir()}
        assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    finally:
        os.umask(before)
        store.close()
    assert [entry.name for entry in directory.iterdir()] == ["store.db"]


def test_a_store_is_made_once_however_many_open_it(path: Path) -> None:
    handles = [SqliteStore(path) for _ in range(8)]
    failures: list[BaseException] = []
    begin = threading.Barrier(len(handles))

    def use(handle: SqliteStore) -> None:
        try:
            begin.wait()
            handle.exchange("w", ONE, 0)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert requests(handles[0]) == len(handles)
    for handle in handles:
        handle.close()


def test_reading_does_not_wait_for_a_writer(path: Path) -> None:
    """Nor does an exchange that has nothing to tell."""
    store = SqliteStore(path, lock_s=0.05)
    version = store.exchange("w", ONE, 0).version
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM usage")
        assert store.exchange("w", Batch(), version) == Changes(version=version)
        assert requests(store) == 1
    store.close()


def test_an_exchange_without_news_writes_nothing(path: Path) -> None:
    store = SqliteStore(path)
    version = store.exchange("w", ONE, 0).version
    wal = path.with_name("store.db-wal").stat().st_size
    for _ in range(50):
        assert store.exchange("w", Batch(), version).version == version
    assert path.with_name("store.db-wal").stat().st_size == wal
    store.close()


def test_a_newer_versions_file_is_left_alone(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.open()
    with closing(sqlite3.connect(path)) as other:
        other.execute("INSERT INTO migrations VALUES (?, 0)", (SQLITE.version + 100,))
        other.commit()
    with pytest.raises(StoreError, match="a newer dragoman"):
        SqliteStore(path).exchange("w", ONE, 0)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM usage").fetchone() == (0,)


def test_tables_are_brought_up_to_date_or_left_as_they_were(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(path)) as store:
        store.exchange("w", ONE, 0)
    known = SQLITE.version
    usage = replace(USAGE, columns=(*USAGE.columns, Column("more", "TEXT")))
    tables = [usage if one is USAGE else one for one in schema.TABLES]
    for name in ("sqlite_file", "sqlite_connection"):
        monkeypatch.setattr(
            f"dragoman.storage.{name}.SQLITE", replace(SQLITE, version=SQLITE.version + 1)
        )
    monkeypatch.setattr(schema, "TABLES", (*tables, make_table("extra", "one TEXT CHECK (", "one")))
    with pytest.raises(StoreError, match="syntax error"):
        SqliteStore(path).upgrade()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT max(number) FROM migrations").fetchone() == (known,)
        assert "more" not in [row[1] for row in other.execute("PRAGMA table_info(usage)")]
    monkeypatch.setattr(schema, "TABLES", (*tables, make_table("extra", "one TEXT", "one")))
    with closing(SqliteStore(path)) as store:
        store.upgrade()
        assert requests(store) == 1
    with closing(sqlite3.connect(path)) as other:
        rows = other.execute("SELECT number FROM migrations ORDER BY number").fetchall()
        assert rows == [(known,), (known + 1,)]
        assert "more" in [row[1] for row in other.execute("PRAGMA table_info(usage)")]


def test_another_programs_database_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (one)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        SqliteStore(path).exchange("w", ONE, 0)
    assert path.read_bytes() == before


def test_what_is_no_database_is_left_alone(path: Path) -> None:
    text = b"[server]\nport = 8080\n" * 100
    path.write_bytes(text)
    with pytest.raises(StoreError, match="is not a database"):
        SqliteStore(path).exchange("w", ONE, 0)
    assert path.read_bytes() == text


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path).open()


def test_a_place_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"exists|Not a directory"):
        SqliteStore(tmp_path / "file" / "store.db").open()


def test_a_damaged_file_is_told_as_such(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.exchange("w", big(400), 0)
    healthy = path.read_bytes()
    page = 4096
    path.write_bytes(healthy[:page] + b"\xa5" * (len(healthy) - page))
    broken = SqliteStore(path)
    with pytest.raises(StoreError, match="is damaged"):
        broken.exchange("w", ONE, 0)
    path.write_bytes(healthy)
    broken.exchange("w", ONE, 0)
    assert requests(broken) == 1
    broken.close()


def test_a_full_file_takes_all_of_a_batch_or_nothing(path: Path) -> None:
    store = SqliteStore(path)
    version = store.exchange("w", ONE, 0).version
    with store._database.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    batch = big(2000)
    batch.transitions.append(Transition("a", Disabled("by me"), 1.0))
    with pytest.raises(StoreError, match="the disk is full"):
        store.exchange("w", batch, version)
    assert store.states() == {}
    assert len(store.usage(0, 1)) == 1
    # The limit went with the connection: the disk has room again.
    assert store.exchange("w", batch, version).states["a"].disabled == "by me"
    assert len(store.usage(0, 1)) == 2001
    store.close()


@contextmanager
def full_disk(path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, in which `path` is a directory."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user cannot mount a file system")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_and_one_with_room_again(tmp_path: Path) -> None:
    with full_disk(tmp_path / "small") as small:
        store = SqliteStore(small / "store.db")
        version = store.exchange("w", ONE, 0).version
        ballast = small / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(bytes(2 * 1024 * 1024))
        with pytest.raises(StoreError, match=r"disk is full|disk I/O error"):
            store.exchange("w", big(200), version)
        ballast.unlink()
        store.exchange("w", ONE, version)
        assert requests(store) == 2
        assert len(store.usage(0, 1)) == 1
        store.close()


def test_a_file_that_may_not_grow(path: Path) -> None:
    """The limit on the size of files stands for a quota; the disk works again when it is gone."""
    store = SqliteStore(path)
    version = store.exchange("w", ONE, 0).version
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(entry.stat().st_size for entry in path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, hard))
    try:
        with pytest.raises(StoreError, match=r"disk I/O error|disk is full"):
            store.exchange("w", big(2000), version)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert requests(store) == 1
    store.exchange("w", ONE, version)
    assert requests(store) == 2
    assert len(store.usage(0, 1)) == 1
    store.close()


def test_a_file_that_is_locked_for_too_long(path: Path) -> None:
    store = SqliteStore(path, lock_s=0.05)
    version = store.exchange("w", ONE, 0).version
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            store.exchange("w", ONE, version)
    store.exchange("w", ONE, version)
    assert requests(store) == 2
    store.close()


def test_a_file_that_is_removed_is_made_again(path: Path) -> None:
    store = SqliteStore(path)
    version = store.exchange("w", ONE, 0).version
    for entry in list(path.parent.iterdir()):
        entry.unlink()
    with pytest.raises(StoreError, match="removed or replaced"):
        store.exchange("w", ONE, version)
    store.exchange("w", ONE, version)
    assert requests(store) == 1
    store.close()
    with closing(SqliteStore(path)) as again:
        assert requests(again) == 1


def test_a_backup_that_is_put_in_its_place_is_told_whole(path: Path, tmp_path: Path) -> None:
    backup = SqliteStore(tmp_path / "backup.db")
    store = SqliteStore(path)
    version = store.exchange("w", ONE, 0).version
    for _ in range(version + 5):
        # So that its version alone does not tell that it is another.
        backup.exchange("w", ONE, 0)
    backup.define([Definition(name="a", upstream="u")])
    for _ in range(5):
        backup.exchange("w", ONE, 0)
    backup.close()
    for entry in path.parent.glob("store.db*"):
        entry.unlink()
    (tmp_path / "backup.db").rename(path)
    with pytest.raises(StoreError, match="removed or replaced"):
        store.exchange("w", Batch(), version + 8)
    told = store.exchange("w", Batch(), version + 8)
    assert [entry.name for entry in told.definitions] == ["a"]
    assert store.exchange("w", Batch(), told.version).definitions == ()
    store.close()


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write to everything; whoever else runs the tests already is nobody."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        path = directory / "store.db"
        with closing(SqliteStore(path)) as store:
            store.exchange("w", ONE, 0)
        path.chmod(0o444)
        directory.chmod(0o555)
        store = SqliteStore(path)
        with as_nobody(), pytest.raises(StoreError, match="cannot be"):
            store.exchange("w", ONE, 0)
        directory.chmod(0o700)
        path.chmod(0o600)
        assert requests(store) == 1
        store.close()


WRITER = """
import sys
from dragoman.accounts.store import Batch, UsageCount, UsageKey
from dragoman.accounts.decide.states import Disabled, Enabled, Transition
from dragoman.storage.sqlite import SqliteStore
from dragoman.storage.sqlite_schema import SQLITE
from dragoman.storage.tables.table import Column, make_table
from dragoman.storage.tables.usage import USAGE
store = SqliteStore(sys.argv[1])
key = UsageKey(0, "a", "me", "m", "/v1/messages")
version = turn = 0
while True:
    turn += 1
    outcome = Disabled("x") if turn % 2 else Enabled()
    batch = Batch(
        usage={key: UsageCount(requests=1)},
        transitions=[Transition("a", outcome, float(turn))],
        leases={"a": 1},
    )
    version = store.exchange("lost", batch, version).version
    print(turn, flush=True)
"""


@pytest.mark.parametrize("writes", [1, 7, 60])
def test_a_writer_that_is_killed_leaves_a_usable_store(path: Path, writes: int) -> None:
    """What it was told to be written is there; of what it was about to write all or nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = 0
    while told < writes:
        told = int(process.stdout.readline())
    process.kill()
    told += len(process.stdout.read().splitlines())
    process.wait()
    process.stdout.close()
    with closing(SqliteStore(path)) as store:
        assert requests(store) in (told, told + 1)
        newest = store.history("a", 1)[0]
        assert newest.at == requests(store)
        assert bool(store.states()["a"].disabled) == (newest.change == "disabled")
        store.exchange("w", ONE, 0)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
