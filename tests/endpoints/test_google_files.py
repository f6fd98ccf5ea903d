"""Google's files and cached contents by its own SDK: whose they are, how they come, who is asked
for them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from google.genai import Client
from google.genai.errors import ClientError
from google.genai.types import File, Part, UploadFileConfig

from dragoman.endpoints.google_uploads import answered_headers, upload_name
from dragoman.lab.simulator.google_holdings import GRANULARITY
from dragoman.lab.simulator.testing import RunningSimulator
from tests.endpoints.bound import ME, YOU, Gateways, gateways
from tests.endpoints.google import begun, named, piece
from tests.gateway.administration import eventually
from tests.gateway.http import Connection, call

DENIED = "You do not have permission to access the File"


CACHED = "CachedContent not found"


def upload(client: Client, content: bytes, display_name: str | None = None) -> File:
    config = UploadFileConfig(mime_type="text/plain", display_name=display_name)
    made = client.files.upload(file=io.BytesIO(content), config=config)
    assert made.name is not None
    return made


@pytest.mark.parametrize(
    ("version", "stores"), [("v1", "postgres"), ("v1beta", "sqlite")], indirect=["stores"]
)
def test_files_are_their_clients_at_every_instance_and_after_a_restart(
    service: RunningSimulator, tmp_path: Path, stores: str, version: str
) -> None:
    with gateways(service, tmp_path, stores) as opened:
        first, second = opened.open(), opened.open()
        mine, elsewhere, yours = (
            opened.google(first, ME, version),
            opened.google(second, ME, version),
            opened.google(second, YOU, version),
        )
        made = [
            upload(mine, "one é".encode(), display_name="a é"),
            upload(elsewhere, b"two"),
            upload(yours, b"three"),
        ]
        held = service.app.holdings.held
        assert [held[str(one.name)].content for one in made] == ["one é".encode(), b"two", b"three"]
        assert held[str(made[0].name)].key == held[str(made[1].name)].key
        assert elsewhere.files.get(name=str(made[0].name)) == mine.files.get(name=str(made[0].name))
        assert made[0].display_name == "a é"
        assert named(mine.files.list()) == [made[1].name, made[0].name]
        assert named(yours.files.list(config={"page_size": 1})) == [made[2].name]
        for ask in (yours.files.get, yours.files.delete):
            with pytest.raises(ClientError, match=DENIED) as caught:
                ask(name=str(made[0].name))
            assert caught.value.status == "PERMISSION_DENIED"
        first.stop()
        second.stop()
        again = opened.google(opened.open(), ME, version)
        assert again.files.get(name=str(made[1].name)).size_bytes == 3
        again.files.delete(name=str(made[1].name))
        assert named(again.files.list()) == [made[0].name]
        with pytest.raises(ClientError, match=DENIED):
            again.files.get(name=str(made[1].name))
        assert held.keys() == {made[0].name, made[2].name}


def test_anothers_file_is_answered_like_one_that_never_was(opened: Gateways) -> None:
    gateway = opened.open()
    name = str(upload(opened.google(gateway), b"mine").name)
    asked, unknown = len(opened.simulator.requests), f"{name[:-1]}x"
    for method, below in (("GET", ""), ("DELETE", ""), ("GET", ":download")):
        answers = [
            call(gateway.base_url, method, f"/v1beta/{one}{below}", key=YOU)
            for one in (name, unknown)
        ]
        assert [one.status for one in answers] == [403, 403]
        spelled = [one.removeprefix("files/") for one in (name, unknown)]
        # The details have the id of the request.
        errors = [{**one.json["error"], "details": None} for one in answers]
        errors[0]["message"] = errors[0]["message"].replace(*spelled)
        assert errors[0] == errors[1]
    assert len(opened.simulator.requests) == asked


def test_lists_are_paged(opened: Gateways) -> None:
    gateway = opened.open()
    mine = opened.google(gateway)
    files = [str(upload(mine, b"x").name) for _ in range(5)]
    upload(opened.google(gateway, YOU), b"x")
    assert named(mine.files.list(config={"page_size": 2})) == files[::-1]
    page = call(gateway.base_url, "GET", "/v1beta/files?pageSize=5", key=ME).json
    assert "nextPageToken" not in page, "clients would go on"
    for query in ("pageSize=x", "pageSize=-1", "pageToken=files/no"):
        assert call(gateway.base_url, "GET", f"/v1beta/files?{query}", key=ME).status == 400


def test_an_uploads_url_is_the_gateways_whatever_the_service_answers() -> None:
    for url in ("https://[x?upload_id=a&key=k", "https://other.example/x?upload_id=a"):
        headers, name = answered_headers({"x-goog-upload-url": url}, "http://me")
        assert headers == [(b"x-goog-upload-url", b"http://me?upload_id=a")]
        assert name == upload_name(b"upload_id=a")


def test_an_upload_goes_on_after_a_break_at_another_instance_and_after_a_restart(
    opened: Gateways,
) -> None:
    first, content = opened.open(), os.urandom(5 * GRANULARITY + 7)
    url = begun(first.base_url, len(content))
    assert url.startswith(first.base_url)
    assert piece(url, "upload", 0, content[:GRANULARITY]).status == 200
    with Connection(first.base_url) as broken:
        headers = {
            "x-goog-upload-command": "upload, finalize",
            "x-goog-upload-offset": str(GRANULARITY),
            "content-length": str(len(content) - GRANULARITY),
        }
        path = url.removeprefix(first.base_url)
        broken.send("POST", path, content[GRANULARITY : 4 * GRANULARITY], headers)
        (held,) = opened.simulator.app.google.uploads.values()
    assert eventually(lambda: len(held.content) > GRANULARITY)
    first.stop()
    second = opened.open()
    url = url.replace(first.base_url, second.base_url)
    at = piece(url, "query")
    assert at.headers["x-goog-upload-status"] == "active"
    received = int(at.headers["x-goog-upload-size-received"])
    assert GRANULARITY < received <= 4 * GRANULARITY
    wrong = piece(url, "upload, finalize", received + 1, content[received:])
    assert (wrong.status, wrong.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    made = piece(url, "upload, finalize", received, content[received:])
    assert made.headers["x-goog-upload-status"] == "final"
    name = made.json["file"]["name"]
    assert opened.simulator.app.holdings.held[name].content == content
    assert piece(url, "query").json["file"]["name"] == name
    assert named(opened.google(second).files.list()) == [name]
    assert not named(opened.google(second, YOU).files.list())
    assert piece(url, "query", key=YOU).status == 404
    third = opened.open('addresses = ["10.0.0.1"]')
    assert piece(url.replace(second.base_url, third.base_url), "query").status == 403
    refused = piece(url.replace("upload_id=", "upload_id=x"), "query")
    assert refused.status == 401
    assert "www-authenticate" in refused.headers


@pytest.mark.parametrize("protocol", ["raw", "multipart"])
def test_a_file_comes_in_one_request(opened: Gateways, protocol: str) -> None:
    gateway = opened.open()
    about = b'--B\r\ncontent-type: application/json\r\n\r\n{"file": {"displayName": "n"}}\r\n'
    body, media = b"\0content", "image/png"
    if protocol == "multipart":
        body = about + b"--B\r\ncontent-type: image/png\r\n\r\n" + body + b"\r\n--B--\r\n"
        media = "multipart/related; boundary=B"
    headers = {"x-goog-upload-protocol": protocol, "content-type": media}
    answer = call(gateway.base_url, "POST", "/upload/v1/files", body, key=ME, headers=headers)
    name = answer.json["file"]["name"]
    assert answer.json["file"]["mimeType"] == "image/png"
    assert opened.simulator.app.holdings.held[name].content == b"\0content"
    assert named(opened.google(gateway).files.list()) == [name]


def test_a_file_that_is_too_large_is_refused_at_once(opened: Gateways) -> None:
    gateway = opened.open(more="[server]\nupload_limit_bytes = 1000\n")
    with pytest.raises(ClientError) as caught:
        upload(opened.google(gateway), b"x" * 1001)
    assert caught.value.code == 413
    assert not opened.simulator.requests


def test_a_request_goes_to_the_account_that_has_its_files(opened: Gateways) -> None:
    gateway, service = opened.open(), opened.simulator
    mine, yours = opened.google(gateway), opened.google(gateway, YOU)
    file = upload(mine, b"x")
    key = service.app.holdings.held[str(file.name)].key
    anywhere = Part.from_uri(file_uri="https://youtu.be/x", mime_type="video/mp4")
    for _ in range(3):
        mine.models.generate_content(model="gemini-x", contents=["a", file, anywhere])
        assert service.last.key == key
        mine.models.count_tokens(model="gemini-x", contents=["a", file])
        assert service.last.key == key
        mine.interactions.create(
            model="interactions/sim-text",
            input=[{"type": "document", "uri": str(file.uri), "mime_type": "application/pdf"}],
        )
        assert service.last.key == key
    asked = len(service.requests)
    name = str(file.name)
    for uri in (
        str(file.uri),
        f"https://generativelanguage.googleapis.com/v1beta/{name}",
        f"https://GENERATIVELANGUAGE.googleapis.com/v1beta/%66iles/{name[6:]}?alt=media",
        f"https://generativelanguage.googleapis.com//v1beta/./{name}",
        name,
    ):
        part = Part.from_uri(file_uri=uri, mime_type="text/plain")
        with pytest.raises(ClientError) as caught:
            yours.models.generate_content(model="gemini-x", contents=["a", part])
        assert caught.value.code in (403, 404)
    assert len(service.requests) == asked
    yours.models.generate_content(model="gemini-x", contents=["a", anywhere])


def test_cached_contents_are_their_clients_and_have_its_names_of_models(opened: Gateways) -> None:
    gateway, service = opened.open(), opened.simulator
    mine, yours = opened.google(gateway), opened.google(gateway, YOU)
    file = upload(mine, b"x")
    made = mine.caches.create(
        model="gemini-x", config={"contents": ["much", file], "ttl": "600s", "display_name": "c"}
    )
    name = str(made.name)
    held = service.app.holdings.held
    assert (made.model, held[name].shown["model"]) == ("models/gemini-x", "models/sim-text")
    assert held[name].key == held[str(file.name)].key
    later = mine.caches.update(name=name, config={"ttl": "6000s"})
    assert later.expire_time is not None
    assert made.expire_time is not None
    assert later.expire_time > made.expire_time
    assert mine.caches.get(name=name) == later
    assert list(mine.caches.list()) == [later]
    assert not list(yours.caches.list())
    for _ in range(3):
        mine.models.generate_content(
            model="gemini-x", contents="a", config={"cached_content": name}
        )
        assert service.last.key == held[name].key
    asked = len(service.requests)
    for ask in (yours.caches.get, yours.caches.delete):
        with pytest.raises(ClientError, match=CACHED) as caught:
            ask(name=name)
        assert caught.value.code == 403
    with pytest.raises(ClientError, match=CACHED):
        yours.models.generate_content(
            model="gemini-x", contents="a", config={"cached_content": name}
        )
    with pytest.raises(ClientError, match=DENIED):
        yours.caches.create(model="gemini-x", config={"contents": [file]})
    with pytest.raises(ClientError, match="no-such"):
        mine.caches.create(model="no-such", config={"contents": ["a"]})
    assert len(service.requests) == asked
    mine.caches.delete(name=name)
    assert not list(mine.caches.list())
    assert name not in held


def test_what_an_account_has_no_more_blames_no_account(opened: Gateways) -> None:
    """And two accounts are asked for nothing together."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.google(gateway)
    file = upload(mine, b"x")
    del service.app.holdings.held[str(file.name)]
    with pytest.raises(ClientError, match=DENIED):
        mine.files.get(name=str(file.name))
    assert all(
        not (one := gateway.app.pool.state(account.name)).disabled and not one.cooling
        for account in gateway.app.pool.accounts()
    )
