"""Upstreams over TLS: authorities of one's own, and what is wrong with a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config
from dragoman.config.files import FileText, read_file
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.server import file_faults
from tests.gateway.certificates import behind_tls, self_signed
from tests.gateway.clients import APIS, PATHS, body, completed, error_of
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import call
from tests.gateway.limited import ask, serving

UPSTREAMS = ("chat", "messages", "responses")


def over(base_url: str, ca_file: FileText | None) -> Config:
    """All upstreams at `base_url`, with these authorities."""
    config = config_for(base_url)
    upstreams = tuple(replace(one, ca_file=ca_file) for one in config.upstreams)
    return replace(config, upstreams=upstreams)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("api", APIS)
def test_authorities_of_an_upstream_are_trusted(
    start: Start, simulator: RunningSimulator, tmp_path: Path, api: str, upstream: str
) -> None:
    certificate = self_signed(tmp_path)
    with behind_tls(simulator.base_url, certificate) as url:
        gateway = start(over(url, read_file(str(certificate))))
        assert ask(gateway, api, f"{upstream}/sim-text").status == 200
        streamed = call(
            gateway.base_url, "POST", PATHS[api], body(api, f"{upstream}/sim-text", stream=True)
        )
        assert completed(api, streamed.body)


def test_an_upstream_that_asks_for_a_certificate_is_shown_one(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    certificate = self_signed(tmp_path)
    own = self_signed(tmp_path, "gateway.example")
    with behind_tls(simulator.base_url, certificate, own) as url:
        config = over(url, read_file(str(certificate)))
        assert ask(start(config), "chat", "chat/sim-text").status >= 500
        assert simulator.requests == []
        shown = tuple(
            replace(one, client_certificate=read_file(str(own))) for one in config.upstreams
        )
        gateway = start(replace(config, upstreams=shown))
        for api, upstream in zip(APIS, UPSTREAMS, strict=True):
            assert ask(gateway, api, f"{upstream}/sim-text").status == 200


def test_a_file_without_certificate_and_key_is_a_fault(tmp_path: Path) -> None:
    pem = self_signed(tmp_path).read_text()
    key = "-----BEGIN PRIVATE KEY-----"
    (tmp_path / "no-key.pem").write_text(pem.partition(key)[0])
    (tmp_path / "key.pem").write_text(key + pem.partition(key)[2])
    for name in ("no-key.pem", "key.pem"):
        config = over("https://127.0.0.1:1", None)
        first = replace(config.upstreams[0], client_certificate=read_file(str(tmp_path / name)))
        ((place, message),) = file_faults(replace(config, upstreams=(first,)))
        assert place == ("upstreams", 0, "client_certificate")
        assert "no certificate and key that belong together" in message


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "certificate_expired": ({"days": -1}, "has expired"),
    "certificate_of_another_name": ({"name": "elsewhere.example"}, "is for another name"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("cause", [*WRONG, "certificate_untrusted", "not_tls"])
def test_what_is_wrong_with_a_certificate_is_told(
    simulator: RunningSimulator, tmp_path: Path, api: str, cause: str
) -> None:
    """To the client, and in the log."""
    made, words = WRONG.get(cause, ({}, ""))
    certificate = self_signed(tmp_path, **made)
    with behind_tls(simulator.base_url, certificate) as url:
        trusted = read_file(str(certificate))
        if cause == "certificate_untrusted":
            trusted = read_file(str(self_signed(tmp_path, "another.example")))
            words = "ca_file of the upstream"
        elif cause == "not_tls":
            url, words = simulator.base_url.replace("http:", "https:"), "does not speak TLS"
        with serving(over(url, trusted)) as (gateway, lines):
            answer = ask(gateway, api, "chat/sim-text")
            assert words in error_of(api, answer)["message"]
        assert [one["kind"] for one in lines[-1]["failed"]] == [cause] * len(lines[-1]["failed"])
    assert simulator.requests == []


def test_a_file_without_certificates_is_a_fault(tmp_path: Path) -> None:
    empty, text = tmp_path / "empty.pem", tmp_path / "text.pem"
    empty.write_bytes(b"")
    text.write_bytes(b"no certificate")
    cases = {
        str(empty): "is empty",
        str(text): "no certificates, as PEM",
        str(tmp_path / "missing.pem"): "No such file",
        "/dev/zero": "it is no file",
    }
    for name, words in cases.items():
        config = over("https://127.0.0.1:1", read_file(name))
        found = [fault for fault in file_faults(config) if fault[0][-1] == "ca_file"]
        assert [fault[0] for fault in found] == [("upstreams", at, "ca_file") for at in range(3)]
        assert all(words in message for _, message in found), found
