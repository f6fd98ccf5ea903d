"""Files and what else one account has for one client: whose they are, and who is asked for them."""

from __future__ import annotations

import io
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from msgspec.structs import replace

from dragoman.accounts.decide.states import AccountState
from dragoman.config import Storage
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.endpoints.bound import (
    KEYS,
    ME,
    YOU,
    Gateways,
    batch_lines,
    gateways,
)
from tests.endpoints.serving import config, sdk, serving, upstream
from tests.gateway.http import call

SAID: list[Any] = [{"role": "user", "content": "Hi"}]


def holders(service: RunningSimulator, kind: str = "files") -> dict[str, str]:
    """The key that holds each thing of a kind."""
    return {name: one.key for name, one in service.app.holdings.held.items() if one.kind == kind}


def given(*names: str) -> Any:
    """A message with these files."""
    return [{"role": "user", "content": [{"type": "file", "file": {"file_id": n}} for n in names]}]


def test_files_are_their_clients_at_every_instance_and_after_a_restart(
    service: RunningSimulator, tmp_path: Path, stores: str
) -> None:
    with gateways(service, tmp_path, stores) as opened:
        first, second = opened.open(), opened.open()
        mine, elsewhere, yours = (
            opened.openai(first), opened.openai(second), opened.openai(second, YOU)
        )  # fmt: skip
        made = [
            mine.files.create(file=("a é.txt", io.BytesIO(b"one\r\n--\0")), purpose="user_data"),
            elsewhere.files.create(file=("b.txt", io.BytesIO(b"two")), purpose="vision"),
            yours.files.create(file=("c.txt", io.BytesIO(b"three")), purpose="user_data"),
        ]
        held = holders(service)
        assert held.keys() == {one.id for one in made}
        assert held[made[0].id] == held[made[1].id], "one request can name both"
        assert elsewhere.files.retrieve(made[0].id).filename == "a é.txt"
        assert elsewhere.files.content(made[0].id).read() == b"one\r\n--\0"
        assert [one.id for one in mine.files.list()] == [made[1].id, made[0].id]
        assert [one.id for one in mine.files.list(purpose="vision")] == [made[1].id]
        assert [one.id for one in yours.files.list(limit=1)] == [made[2].id]
        for ask in (yours.files.retrieve, yours.files.delete, yours.files.content):
            with pytest.raises(openai.NotFoundError, match="No such File object: "):
                ask(made[0].id)
        first.stop()
        second.stop()
        again = opened.openai(opened.open())
        assert again.files.retrieve(made[1].id) == made[1]
        assert again.files.delete(made[1].id).deleted
        assert [one.id for one in again.files.list()] == [made[0].id]
        with pytest.raises(openai.NotFoundError):
            again.files.retrieve(made[1].id)
        assert holders(service).keys() == {made[0].id, made[2].id}


def test_anothers_file_is_answered_like_one_that_never_was(opened: Gateways) -> None:
    gateway = opened.open()
    name = opened.openai(gateway).files.create(file=b"mine", purpose="user_data").id
    asked = len(opened.simulator.requests)
    unknown = f"{name[:-1]}x"
    for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/content")):
        answers = [
            call(gateway.base_url, method, f"/v1/files/{one}{below}", key=YOU)
            for one in (name, unknown)
        ]
        assert [one.status for one in answers] == [404, 404]
        assert answers[0].body.replace(name.encode(), unknown.encode()) == answers[1].body
    assert len(opened.simulator.requests) == asked
    assert opened.openai(gateway).files.retrieve(name).id == name


def test_the_keys_of_a_team_may_share_what_they_make(opened: Gateways) -> None:
    """Chat and files of one key name, list and delete what another made; what a key made before
    stays its own, and another team has none of it."""
    service = opened.simulator
    gateway = opened.open('team = "t"', _TEAM, yours='team = "t"')
    before = opened.openai(gateway).files.create(file=b"alone", purpose="user_data").id
    with pytest.raises(openai.NotFoundError):
        opened.openai(gateway, YOU).files.retrieve(before)
    gateway.stop()
    gateway = opened.open('team = "t"', f'{_TEAM}share = "team"', yours='team = "t"')
    mine, yours = opened.openai(gateway), opened.openai(gateway, YOU)
    shared = mine.files.create(file=b"one", purpose="user_data").id
    answered = yours.files.create(file=b"two", purpose="user_data").id
    held = holders(service)
    assert held[shared] == held[answered] == held[before], "one request can name all"
    yours.chat.completions.create(model="my-model", messages=given(shared, answered))
    assert service.last.key == held[shared]
    mine.chat.completions.create(model="my-model", messages=given(before, answered))
    with pytest.raises(openai.NotFoundError, match=before):
        yours.chat.completions.create(model="my-model", messages=given(before))
    assert [one.id for one in mine.files.list()] == [answered, shared]
    assert yours.files.content(shared).read() == b"one"
    assert yours.files.delete(shared).deleted
    assert [one.id for one in mine.files.list()] == [answered]
    gateway.stop()
    other = opened.openai(opened.open(yours='team = "t"', more=_TEAM))
    with pytest.raises(openai.NotFoundError):
        other.files.retrieve(answered)


_TEAM = """
[[teams]]
name = "t"
"""


def test_lists_are_paged_by_both_vendors_sdks(opened: Gateways) -> None:
    gateway = opened.open()
    mine, anthropics = opened.openai(gateway), opened.anthropic(gateway)
    files = [mine.files.create(file=b"x", purpose="user_data").id for _ in range(5)]
    others = [anthropics.files.upload(file=("n.txt", b"x")).id for _ in range(5)]
    opened.openai(gateway, YOU).files.create(file=b"x", purpose="user_data")
    assert [one.id for one in mine.files.list(limit=2)] == files[::-1]
    assert [one.id for one in mine.files.list(limit=2, order="asc")] == files
    assert [one.id for one in anthropics.files.list(limit=2)] == others[::-1]
    assert [one.id for one in anthropics.files.list(ids=[others[1], files[0]])] == [others[1]]
    assert call(gateway.base_url, "GET", "/v1/files?limit=0", key=ME).status == 400
    assert call(gateway.base_url, "GET", "/v1/files?after=file-no", key=ME).status == 404


def test_both_vendors_files_are_on_one_path(opened: Gateways) -> None:
    """The header of Anthropic's SDK tells them apart, and each has the other's errors in its own
    shape."""
    gateway = opened.open()
    mine, anthropics = opened.openai(gateway), opened.anthropic(gateway)
    one = mine.files.create(file=("a.txt", b"open"), purpose="user_data")
    other = anthropics.files.upload(file=("b.txt", b"anthropic"))
    assert (one.id[:5], other.id[:5]) == ("file-", "file_")
    assert anthropics.files.retrieve_metadata(other.id).filename == "b.txt"
    assert anthropics.files.download(other.id).read() == b"anthropic"
    message = anthropics.messages.create(
        model="claude-x",
        max_tokens=10,
        messages=[{"role": "user", "content": [
            {"type": "document", "source": {"type": "file", "file_id": other.id}},  # type: ignore[typeddict-item, list-item, unused-ignore]
        ]}],
    )  # fmt: skip
    assert message.role == "assistant"
    assert anthropics.files.delete(other.id).id == other.id
    with pytest.raises(anthropic.NotFoundError, match="File not found"):
        anthropics.files.retrieve_metadata(other.id)
    assert [file.id for file in mine.files.list()] == [one.id]


def test_a_request_goes_to_the_account_that_has_its_files(opened: Gateways) -> None:
    """Chat and Responses name what was uploaded for either; of two accounts both ids are named, and
    nobody names what is another client's."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.openai(gateway)
    names = [mine.files.create(file=b"x", purpose="user_data").id for _ in range(2)]
    key = holders(service)[names[0]]
    for _ in range(4):
        mine.chat.completions.create(model="my-model", messages=given(*names))
        assert service.last.key == key
        content: Any = [{"role": "user", "content": [{"type": "input_file", "file_id": names[0]}]}]
        mine.responses.create(model="responses/sim-text", input=content)
        assert service.last.key == key
        mine.chat.completions.create(model="my-model", messages=SAID)
    asked = len(service.requests)
    with pytest.raises(openai.NotFoundError, match=names[0]):
        opened.openai(gateway, YOU).chat.completions.create(
            model="my-model", messages=given(names[0])
        )
    with pytest.raises(openai.BadRequestError, match="vendor"):
        mine.chat.completions.create(model="claude-x", messages=given(names[0]))
    assert len(service.requests) == asked


def test_what_two_accounts_have_is_no_one_request(opened: Gateways) -> None:
    """And where an account is off, no other is asked for what it has."""
    service, names = opened.simulator, []
    for key in KEYS:
        gateway = opened.open(keys=(key,))
        made = opened.openai(gateway).files.create(file=b"x", purpose="user_data")
        names.append(made.id)
        gateway.stop()
    assert list(holders(service).values()) == list(KEYS)
    mine = opened.openai(opened.open())
    with pytest.raises(openai.BadRequestError) as caught:
        mine.chat.completions.create(model="my-model", messages=given(*names))
    assert all(name in str(caught.value) for name in names)
    asked = len(service.requests)
    only = opened.openai(opened.open(keys=KEYS[:1]))
    for ask in (
        lambda: only.files.retrieve(names[1]),
        lambda: only.chat.completions.create(model="my-model", messages=given(names[1])),
    ):
        with pytest.raises(openai.InternalServerError, match=names[1]) as gone:
            ask()
        assert gone.value.status_code == 503
    assert len(service.requests) == asked


def test_an_upload_is_put_together_of_its_parts(opened: Gateways) -> None:
    """They come in any order, at once and to any gateway; the file is then its client's."""
    first, second = opened.open(), opened.open()
    mine, elsewhere = opened.openai(first), opened.openai(second)
    about: Any = {"filename": "a.bin", "purpose": "user_data", "mime_type": "text/plain"}
    upload = mine.uploads.create(bytes=30_000, **about)
    pieces = [bytes([number]) * 10_000 for number in range(3)]
    clients = (elsewhere, mine, elsewhere)
    with ThreadPoolExecutor(3) as threads:
        parts = list(
            threads.map(
                lambda one: one[0].uploads.parts.create(upload.id, data=one[1]),
                zip(clients, pieces, strict=True),
            )
        )
    with pytest.raises(openai.NotFoundError):
        opened.openai(first, YOU).uploads.complete(upload.id, part_ids=[one.id for one in parts])
    done = elsewhere.uploads.complete(upload.id, part_ids=[one.id for one in parts])
    assert done.file is not None
    assert mine.files.content(done.file.id).read() == b"".join(pieces)
    assert [one.id for one in mine.files.list()] == [done.file.id]
    other = mine.uploads.create(bytes=1, **about)
    assert mine.uploads.cancel(other.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="POST /v1/files"):
        mine.uploads.create(bytes=1, **{**about, "purpose": "batch"})
    with closing(sqlite3.connect(opened.folder / "store.db")) as store, store:
        store.execute("UPDATE kept_elsewhere SET expires = 1 WHERE name = ?", (upload.id,))
    with pytest.raises(openai.NotFoundError):
        mine.uploads.parts.create(upload.id, data=b"late")


def test_conversations_vector_stores_and_containers_are_bound(opened: Gateways) -> None:
    """Made, changed, named by requests for answers and deleted, each by the account that has it."""
    gateway, service = opened.open(), opened.simulator
    mine, yours = opened.openai(gateway), opened.openai(gateway, YOU)
    file = mine.files.create(file=b"x", purpose="user_data")
    key = holders(service)[file.id]
    conversation = mine.conversations.create(metadata={"a": "b"})
    store = mine.vector_stores.create(name="s", file_ids=[file.id])
    container = mine.containers.create(name="c", file_ids=[file.id])
    things = {one.id for one in (conversation, store, container)}
    assert {holder for name, holder in _all(service).items() if name in things} == {key}
    tools: Any = [
        {"type": "file_search", "vector_store_ids": [store.id]},
        {"type": "code_interpreter", "container": container.id},
    ]
    ask: dict[str, Any] = {"model": "responses/sim-text", "input": "Hi"}
    for more in ({"conversation": conversation.id}, {"tools": tools}):
        with pytest.raises(openai.NotFoundError):
            yours.responses.create(**ask, **more)
        mine.responses.create(**ask, **more)
        assert service.last.key == key
    assert mine.conversations.retrieve(conversation.id).id == conversation.id
    mine.conversations.items.list(conversation.id)
    mine.vector_stores.files.list(store.id)
    assert service.last.path.endswith("/files")
    assert service.last.key == key
    with pytest.raises(openai.NotFoundError):
        yours.vector_stores.create(name="s", file_ids=[file.id])
    with pytest.raises(openai.NotFoundError):
        yours.vector_stores.files.list(store.id)
    assert [one.id for one in mine.vector_stores.list()] == [store.id]
    assert not list(yours.containers.list())
    mine.conversations.delete(conversation.id)
    mine.vector_stores.delete(store.id)
    mine.containers.delete(container.id)
    assert _all(service).keys() == {file.id}


def _all(service: RunningSimulator) -> dict[str, str]:
    """The key that holds each thing."""
    return {name: one.key for name, one in service.app.holdings.held.items()}


def test_what_several_services_could_make_is_asked_for_by_name(
    opened: Gateways, service: RunningSimulator
) -> None:
    with running_simulator() as other:
        more = f"""
[[upstreams]]
name = "other"
protocol = "openai_chat"
base_url = "{other.base_url}"
endpoints = ["files"]
[[accounts]]
name = "other"
upstream = "other"
key = "sk-sim-other"
"""
        mine = opened.openai(opened.open(more=more))
        with pytest.raises(openai.BadRequestError, match="x-dragoman-upstream"):
            mine.files.create(file=b"x", purpose="user_data")
        header = {"x-dragoman-upstream": "other"}
        made = mine.files.create(file=b"x", purpose="user_data", extra_headers=header)
        assert holders(other) == {made.id: "sk-sim-other"}
        assert mine.files.retrieve(made.id).id == made.id
        for ask in (
            lambda: mine.chat.completions.create(model="my-model", messages=given(made.id)),
            lambda: mine.files.create(
                file=batch_lines("my-model", messages=given(made.id)), purpose="batch"
            ),
        ):
            with pytest.raises(openai.BadRequestError, match="is not known where"):
                ask()
    assert not service.requests


def test_an_account_that_is_off_is_waited_for(opened: Gateways) -> None:
    """By a request that names its file, and by one for the file; new files are made by another."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.openai(gateway)
    name = mine.files.create(file=b"x", purpose="user_data").id
    key = holders(service)[name]
    refused = Failure(401, "The key is wrong.", code="invalid_api_key")
    service.app.keys.behaviours[key] = KeyBehaviour(fault=Fault("error", failure=refused))
    with pytest.raises(openai.APIStatusError):
        mine.files.retrieve(name)
    asked = len(service.requests)
    for ask in (
        lambda: mine.files.retrieve(name),
        lambda: mine.chat.completions.create(model="my-model", messages=given(name)),
    ):
        with pytest.raises(openai.InternalServerError, match="has what the request names") as off:
            ask()
        assert off.value.status_code == 503
    assert len(service.requests) == asked
    other = mine.files.create(file=b"y", purpose="user_data")
    assert holders(service)[other.id] != key


def test_no_form_and_no_encoding_hides_a_file_of_another(opened: Gateways) -> None:
    """A form may name a file in the place of one, and a service may read other encodings."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.openai(gateway)
    theirs = opened.openai(gateway, YOU).files.create(file=b"x", purpose="user_data").id
    own = mine.files.create(file=b"x", purpose="user_data").id
    container = mine.containers.create(name="c", file_ids=[own]).id
    below, form = f"/v1/containers/{container}/files", "multipart/form-data; boundary=B"
    asked = len(service.requests)

    def post(path: str, media: str, body: bytes) -> int:
        headers = {"content-type": media}
        return call(gateway.base_url, "POST", path, body, key=ME, headers=headers).status

    head = b"--B\r\nContent-Disposition: form-data; name="
    named = b"%b" + head + b'"file_id"\r\n\r\n%b\r\n--B--\r\n'
    for before in (b"", head + b'"a"; filename="b"\r\n\r\n\r\n'):
        assert post(below, form, named % (before, theirs.encode())) == 404
    assert post(below, "application/x-www-form-urlencoded", f"file_id={theirs}".encode()) == 415
    body = json.dumps({"name": "c", "file_ids": [theirs]})
    for encoding in ("utf-16", "utf-16-be", "utf-8-sig", "utf-32"):
        for media in ("application/json", f"application/json; charset={encoding}"):
            assert post("/v1/containers", media, body.encode(encoding)) in (400, 415)
            assert post(below, media, body.encode(encoding)) == 400
    assert post("/v1/containers", "application/json", b'{"file_ids": ["\\ud800"]}') == 404
    assert len(service.requests) == asked
    assert post(below, form, named % (b"", own.encode())) == 200
    body = json.dumps({"file_id": own})
    assert post(below, "application/json; charset=utf-16", body.encode()) == 200
    assert "utf-16" not in dict(service.last.headers)["content-type"]


def test_what_is_new_is_made_by_another_account_and_nothing_changed_by_one(
    opened: Gateways,
) -> None:
    """Where the account is refused that has what the client made before."""
    service = opened.simulator
    mine = opened.openai(opened.open())
    store = mine.vector_stores.create(name="s")
    holder = _all(service)[store.id]
    refused = Failure(401, "The key is wrong.", code="invalid_api_key")
    service.app.keys.behaviours[holder] = KeyBehaviour(fault=Fault("error", failure=refused))
    other = mine.vector_stores.create(name="t")
    assert _all(service)[other.id] != holder
    asked = len(service.requests)
    with pytest.raises(openai.APIStatusError):
        mine.vector_stores.delete(store.id)
    assert holder not in [one.key for one in service.requests[asked:]]
    assert store.id in _all(service)


def test_what_was_made_elsewhere_passes_where_one_client_has_one_account(
    service: RunningSimulator, tmp_path: Path
) -> None:
    """And is its own from when it was seen."""
    made = config(upstream("sim", service.base_url))
    made = replace(made, storage=Storage(path=str(tmp_path / "store.db")))
    with openai.OpenAI(base_url=f"{service.base_url}/v1", api_key="sk-sim-account") as direct:
        files = [direct.files.create(file=b"x", purpose="user_data").id for _ in range(2)]
    with serving(made) as (gateway, _):
        mine = sdk(gateway)
        assert mine.files.content(files[0]).read() == b"x"
        assert mine.vector_stores.create(name="s", file_ids=files).id
        assert not list(mine.files.list())
        assert mine.files.retrieve(files[0]).id == files[0]
        assert [one.id for one in mine.files.list()] == files[:1]
        assert mine.files.delete(files[1]).deleted
        for path in ("/v1/files/file-none", "/v1/batches/b/cancel", "/v1/realtime/calls/r/hangup"):
            method = "POST" if path.startswith(("/v1/b", "/v1/r")) else "GET"
            assert (
                call(gateway.base_url, method, path, b"" if method == "POST" else None).status
                == 404
            )
        asked = len(service.requests)
        for name in ("%252e%252e", "%3F", "x%3F", "x%23", ".%0A.", "x%2520"):
            path = f"/v1/vector_stores/{name}/chat/completions"
            assert call(gateway.base_url, "POST", path, {"model": "any"}).status == 404
        assert len(service.requests) == asked
        (account,) = gateway.app.pool.accounts()
        assert gateway.app.pool.state(account.name) == AccountState(name=account.name)


_LIMITS = """
[[clients.limits]]
kind = "requests"
window = "total"
amount = {requests}
[[clients.limits]]
kind = "tokens"
window = "total"
amount = 60
"""


def test_what_is_asked_of_a_thing_counts_as_a_request_and_nothing_else(opened: Gateways) -> None:
    """Reading, cancelling and deleting take from limits of requests, as the service is asked; who
    has spent all tokens can still do so, and make nothing new."""
    service = opened.simulator
    mine = opened.openai(opened.open(_LIMITS.format(requests=6)))
    file = mine.files.create(file=b"x", purpose="user_data").id
    upload = mine.uploads.create(bytes=1, filename="a", purpose="user_data", mime_type="text/plain")
    said: Any = [{"role": "user", "content": "[[sim: scenario=cached_usage]]"}]
    mine.chat.completions.create(model="my-model", messages=said, max_tokens=1)
    with pytest.raises(openai.RateLimitError):
        mine.files.create(file=b"y", purpose="user_data")
    assert mine.files.content(file).read() == b"x"
    assert [one.id for one in mine.files.list()] == [file]
    assert mine.uploads.cancel(upload.id).status == "cancelled"
    assert mine.files.retrieve(file).id == file
    asked = len(service.requests)
    for ask in (mine.files.retrieve, mine.files.content, mine.files.delete):
        with pytest.raises(openai.RateLimitError):
            ask(file)
    with pytest.raises(openai.RateLimitError):
        mine.uploads.cancel(upload.id)
    assert len(service.requests) == asked


@pytest.mark.parametrize(
    "query", ["limit=000000001" + "0" * 5000, "limit=" + "9" * 5000, "&".join(["a=1"] * 300)]
)
@pytest.mark.parametrize("headers", [{}, {"anthropic-version": "2023-06-01"}])
def test_queries_of_lists_have_bounds(
    opened: Gateways, query: str, headers: dict[str, str]
) -> None:
    gateway = opened.open()
    path = f"/v1/files?{query}"
    assert call(gateway.base_url, "GET", path, key=ME, headers=headers).status == 400
