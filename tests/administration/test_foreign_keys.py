"""Keys of other gateways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Client, Config, Secret
from dragoman.keys.ring import Denied, KeyRing
from dragoman.operations.errors import BadFile, BadRow, ImportRejected
from dragoman.operations.foreign_keys import ForeignKey, Source, read_keys
from dragoman.operations.key_import import ImportedKeys, import_keys
from dragoman.operations.key_service import KeyService
from dragoman.storage.sqlite import SqliteStore

NOW = 1_800_000_000.0
IN_FILE = "sk-key-of-the-file"
CONFIG = Config(clients=(Client(name="fixed", key=Secret(IN_FILE)),))
HASH = hashlib.sha256(b"sk-litellm-one").hexdigest()
LITELLM = (
    "token,key_name,key_alias,spend,expires,models,blocked,team_id,rpm_limit,metadata\n"
    f'{HASH},sk-...-one,"Team A / ci",3.5,2027-01-31 00:00:00,"{{gpt-4,gpt-4o}}",f,t,,"{{}}"\n'
    f"{hashlib.sha256(b'sk-litellm-two').hexdigest()},sk-...-two,,0,,{{}},t,elsewhere,,\n"
)
TOKENS: list[dict[str, Any]] = [
    {
        "id": 7, "user_id": 1, "key": "abcdefghijklmnop", "status": 1, "name": "mine",
        "expired_time": -1, "remain_quota": 0, "unlimited_quota": True,
        "model_limits_enabled": True, "model_limits": "gpt-4,gpt-4o",
        "allow_ips": "10.0.0.0/8\n192.0.2.1", "group": "vip",
    },
    {
        "id": 8, "key": "sk-qrstuvwxyz123456", "status": 2, "name": "mine",
        "expired_time": 1893456000, "unlimited_quota": True, "model_limits_enabled": False,
        "model_limits": "left", "allow_ips": None, "group": "default",
    },
    {"id": 9, "key": "gone-gone-gone", "name": "old", "deleted_at": "2026-01-01"},
]  # fmt: skip
OPENROUTER = "name,label,hash,disabled,expires_at\nProd,sk-or-v1-abc...123,f01d,false,\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "store.db")
    yield store
    store.close()


@pytest.fixture
def keys(store: SqliteStore) -> KeyService:
    keys = KeyService(CONFIG, store.client_keys, clock=lambda: NOW)
    keys.teams.add("t", {})
    return keys


def take(keys: KeyService, source: Source, text: str, **more: Any) -> ImportedKeys:
    return import_keys(keys, read_keys(BytesIO(text.encode()), source), **more)


def names(keys: KeyService) -> list[str]:
    views = keys.keys()
    return [view.name for view in views]


def rules(keys: KeyService, name: str) -> dict[str, Any]:
    found = keys.key(name).rules
    return {
        field: getattr(found, field)
        for field in found.__struct_fields__
        if getattr(found, field) != getattr(type(found)(), field)
    }


def found_by(store: SqliteStore, secret: str) -> str:
    """The name of the key that a gateway finds for a secret."""
    ring = KeyRing()
    ring.update(store.client_keys.all_keys(), store.client_keys.all_teams())
    return ring.find(secret.encode(), NOW).name


def test_litellm(store: SqliteStore, keys: KeyService) -> None:
    done = take(keys, "litellm", LITELLM)
    second = f"litellm-{hashlib.sha256(b'sk-litellm-two').hexdigest()[:8]}"
    assert done.added == ("Team-A-ci", second)
    assert done.made == ()
    assert done.left_out == {"Team-A-ci": ("spend",), second: ("team",)}
    first = rules(keys, "Team-A-ci")
    assert first.pop("expires").isoformat() == "2027-01-31T00:00:00+00:00"
    assert first == {"note": "Team A / ci", "models": ("gpt-4", "gpt-4o"), "team": "t"}
    assert rules(keys, second) == {"enabled": False}
    assert keys.key("Team-A-ci").secrets[0].ending == "-one"
    assert found_by(store, "sk-litellm-one") == "Team-A-ci"
    with pytest.raises(Denied):
        found_by(store, HASH)
    assert [line.action for line in store.audit(2)] == ["import", "import"]


def test_new_api(store: SqliteStore, keys: KeyService) -> None:
    for text in (json.dumps(TOKENS), json.dumps({"success": True, "data": {"items": TOKENS}})):
        done = take(keys, "new-api", text, dry_run=True)
        assert (done.rows, done.added) == (2, ("mine", "mine-8"))
    assert names(keys) == ["fixed"]
    done = take(keys, "new-api", "\n".join(json.dumps(one) for one in TOKENS), team="t")
    assert done.left_out == {"mine": ("group",)}
    assert rules(keys, "mine") == {
        "models": ("gpt-4", "gpt-4o"),
        "addresses": ("10.0.0.0/8", "192.0.2.1"),
        "team": "t",
    }
    second = rules(keys, "mine-8")
    assert second.pop("expires").year == 2030
    assert second == {"enabled": False, "note": "mine", "team": "t"}
    assert found_by(store, "sk-abcdefghijklmnop") == "mine"
    assert found_by(store, "sk-qrstuvwxyz123456") == "mine-8"


def test_openrouter_tells_no_keys_so_there_are_new_ones(
    store: SqliteStore, keys: KeyService
) -> None:
    done = take(keys, "openrouter", OPENROUTER)
    [made] = done.made
    assert made.name == "Prod"
    assert made.secret.startswith("sk-drg-")
    assert found_by(store, made.secret) == "Prod"
    assert take(keys, "openrouter", OPENROUTER.replace("Prod", "Other"), dry_run=True).made == ()


LIMITED = {
    "litellm": json.dumps([{
        "token": HASH, "key_alias": "l", "rpm_limit": 60, "tpm_limit": "1000",
        "max_parallel_requests": 3, "max_budget": 12.5, "budget_duration": "30d",
    }]),
    "new-api": json.dumps([
        {"key": "abcdefghijklmnop", "name": "l", "remain_quota": 750_000},
        {"key": "abcdefghijklmnop-2", "name": "m", "remain_quota": -3},
    ]),
    "openrouter": "name,limit,limit_remaining,limit_reset\nl,100,7.25,monthly\nm,10,2,\n",
}  # fmt: skip
LIMITS = {
    "litellm": [
        {"kind": "requests", "amount": 60, "window": "1m"},
        {"kind": "tokens", "amount": 1000, "window": "1m"},
        {"kind": "concurrent", "amount": 3},
        {"kind": "cost", "amount": "12.5", "window": "30d"},
    ],
    "new-api": [{"kind": "cost", "amount": "1.5", "window": "total"}],
    "openrouter": [{"kind": "cost", "amount": "100", "window": "month"}],
}


@pytest.mark.parametrize("source", ["litellm", "new-api", "openrouter"])
def test_limits_are_taken_over_or_left_out_on_demand_and_never_forgotten(
    keys: KeyService, source: Source
) -> None:
    found = read_keys(BytesIO(LIMITED[source].encode()), source)
    assert not isinstance(found[0], BadRow)
    assert found[0].fields["limits"] == LIMITS[source]
    done = import_keys(keys, found, limits=False)
    assert all("limits" in missed for missed in done.left_out.values())
    assert len(done.left_out) == len(found)


BAD: list[tuple[Source, str, list[tuple[int, str]]]] = [
    ("litellm", f"token,key_alias\nabc,one\n{HASH},two\n", [(2, "token")]),
    ("litellm", f"token,key_alias\n{HASH},one\n{HASH},two\n", [(3, "key")]),
    ("litellm", f"token,key_alias\n{HASH},one,more\n", [(2, "")]),
    ("litellm", f"token,key_alias,expires,blocked\n{HASH},a,soon,perhaps\n",
        [(2, "blocked"), (2, "expires")]),
    ("litellm", f"token,key_alias,rpm_limit\n{HASH},a,-5\n", [(2, "rpm_limit")]),
    ("litellm", f"token,key_alias,max_budget\n{HASH},a,1e9\n", [(2, "max_budget")]),
    ("openrouter", "name,limit,limit_remaining\na,2000000,1\n", [(2, "limit")]),
    ("litellm", f"token,key_alias,max_budget,budget_duration\n{HASH},a,5,2mo\n",
        [(2, "budget_duration")]),
    ("litellm", f"token,key_alias,models\n{HASH},a,[1]\n", [(2, "models")]),
    ("litellm", f"token,key_alias\n{HASH},fixed\n", [(2, "name")]),
    ("litellm", f"token,key_alias\n{HASH},anyone\n", [(2, "name")]),
    ("litellm", f"token,key_alias\n{hashlib.sha256(IN_FILE.encode()).hexdigest()},a\n",
        [(2, "key")]),
    ("new-api", "key,name,unlimited_quota\nabcd**********mnop,a,1\nx,b,1\n,c,1\n",
        [(2, "key"), (3, "key"), (4, "key")]),
    ("new-api", "key,name,unlimited_quota,allow_ips\nabcdefghijkl,a,1,10.0.0.0/99\n",
        [(2, "addresses")]),
    ("new-api", '[5, {"key": "abcdefghijkl", "name": "x", "unlimited_quota": true}]', [(1, "")]),
    ("openrouter", "name,disabled\n,false\n", [(2, "name")]),
    ("openrouter", "name,disabled\na\nb,true\nc,true,1\n", [(2, ""), (4, "")]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "text", "faults"), BAD)
def test_every_broken_row_is_named_and_nothing_is_half_done(
    store: SqliteStore,
    keys: KeyService,
    source: Source,
    text: str,
    faults: list[tuple[int, str]],
) -> None:
    before = store.audit(100)
    with pytest.raises(ImportRejected) as caught:
        take(keys, source, text)
    told = [(row.at, fault.field) for row in caught.value.bad for fault in row.faults]
    assert told == faults
    assert names(keys) == ["fixed"]
    assert store.audit(100) == before


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        (["token,key_alias", f"{HASH},a\u2028b\x85c\x0bd"], [2]),
        ([json.dumps({"token": HASH, "key_alias": "\u2029\x85"}, ensure_ascii=False)] * 2, [1, 2]),
    ],
)
def test_a_line_ends_where_files_have_its_end_and_nowhere_in_a_text(
    lines: list[str], rows: list[int], end: str
) -> None:
    found = read_keys(BytesIO(("\ufeff" + end.join(lines)).encode()), "litellm")
    assert all(isinstance(key, ForeignKey) for key in found)
    assert [key.at for key in found] == rows


@pytest.mark.parametrize("text", ["sk-abc,def\nsk-ghi,jkl\n", "", "\x00", '{"a": }', "\ufeffx\n"])
def test_what_is_no_export(text: str) -> None:
    with pytest.raises(BadFile) as caught:
        read_keys(BytesIO(text.encode()), "new-api")
    assert "sk-" not in str(caught.value)


class Disturbed(list[ForeignKey | BadRow]):
    """Rows of which each is read while somebody else changes something."""

    def __init__(self, rows: list[ForeignKey | BadRow], act: Callable[[], object]) -> None:
        super().__init__(rows)
        self._act = act

    def __iter__(self) -> Iterator[ForeignKey | BadRow]:
        for row in super().__iter__():
            self._act()
            yield row


def test_others_use_the_store_while_the_rows_of_an_import_are_read(
    tmp_path: Path, keys: KeyService
) -> None:
    """However many they are: only what is decided by what is there keeps others waiting."""
    other = SqliteStore(tmp_path / "store.db")
    notes = iter(range(100))
    somebody = KeyService(CONFIG, other.client_keys)
    rows = read_keys(BytesIO(LITELLM.encode()), "litellm")
    disturbed = Disturbed(rows, lambda: somebody.teams.change("t", {"note": f"{next(notes)}"}))
    assert len(import_keys(keys, disturbed).added) == 2
    assert keys.teams.team("t").keys == 1
    assert keys.teams.team("t").rules.note == "1"
    other.close()


def test_a_team_that_is_not_there(keys: KeyService) -> None:
    with pytest.raises(ImportRejected) as caught:
        take(keys, "litellm", LITELLM, team="nowhere")
    assert {fault.field for row in caught.value.bad for fault in row.faults} == {"team"}


@pytest.mark.parametrize(
    ("source", "row", "left_out"),
    [
        (
            "litellm",
            {
                "token": "ab" * 32,
                "models": ["all-team-models"],
                "budget_id": "b-1",
                "metadata": {"model_rpm_limit": {"gpt": 5}, "guardrails": [], "tags": ["x"]},
                "aliases": {},
                "router_settings": '{"fallbacks": ["gpt"], "timeout": 0}',
                "a_column_of_tomorrow": "yes",
                "created_at": "2026-01-01",
                "team_id": "t",
                "team_alias": "Team",
            },
            (
                "models: those of its team",
                "budget_id",
                "metadata.model_rpm_limit",
                "metadata.tags",
                "router_settings.fallbacks",
                "a_column_of_tomorrow",
            ),
        ),
        (
            "new-api",
            {"key": "k" * 48, "id": 3, "unlimited_quota": True, "cross_group_retry": True},
            ("cross_group_retry",),
        ),
        (
            "openrouter",
            {"name": "n", "hash": "h" * 64, "usage": 4.5, "include_byok_in_limit": True},
            ("include_byok_in_limit",),
        ),
    ],
)
def test_whatever_is_set_and_not_taken_over_is_told(
    source: Source, row: dict[str, Any], left_out: tuple[str, ...]
) -> None:
    [key] = read_keys(BytesIO(json.dumps([row]).encode()), source)
    assert isinstance(key, ForeignKey)
    assert key.left_out == left_out
