"""Gateways of others: how they are named, configured, probed, and measured beside ours."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from math import isnan
from pathlib import Path

import pytest

from bench import measure, targets
from bench.__main__ import UPSTREAM_PORT, options
from bench.gateways import parsed, placement
from bench.load_client import close, connect, repeat
from bench.peers import RECIPES, litellm, llm_rosetta, portkey
from bench.peers.recipe import Recipe, Site, Start, running
from bench.plan import OWN, rows_of
from bench.plan import measure as measure_all
from bench.probe import Probed, closes, probe
from bench.processes import Child, cpu_seconds, descendants

CORES = targets.Cores(None, None)
MESSAGES_TO_CHAT = measure.cell_of("messages:chat")
CHAT_TO_CHAT = measure.cell_of("chat:chat")
SPEC = "name=x,url=http://127.0.0.1:4000/llm/,pid=12,chat=gpt,messages=claude"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[targets.Upstreams]:
    with targets.upstreams(tmp_path_factory.mktemp("bench"), CORES) as up:
        yield up


@pytest.fixture
def relay(upstream: targets.Upstreams, tmp_path: Path) -> Iterator[targets.Target]:
    with targets.relay(tmp_path, CORES, upstream) as target:
        yield target


def test_a_gateway_is_named_by_url_pid_and_models() -> None:
    gateway = parsed(f"{SPEC},responses-path=/r,header=x-a:1,header=x-b:2,note=Not tuned.,key=k")
    target = gateway.target
    assert (target.name, target.port, target.pid) == ("x", 4000, 12)
    assert isnan(target.started)
    assert target.caveats == ("Not tuned.",)
    path = partial(target.access.path, model="m", stream=True)
    assert path("openai_chat") == "/llm/v1/chat/completions"
    assert path("openai_responses") == "/r"
    google = "/llm/v1beta/models/m:streamGenerateContent?alt=sse"
    assert path("google_generate_content") == google
    assert len(gateway.cells) == 8
    head, _, body = MESSAGES_TO_CHAT.request(target.access).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /llm/v1/messages HTTP/1.1"
    assert {b"x-a: 1", b"x-b: 2", b"authorization: Bearer k"} <= set(lines)
    assert json.loads(body)["model"] == "gpt"


def test_without_a_pid_only_what_clients_see_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = SPEC.replace("pid=12,", "")
    assert parsed(spec).target.pid == 0
    with pytest.raises(SystemExit):
        options(["--gateway", spec])
    assert "pid missing" in capsys.readouterr().err


def test_the_cells_of_a_gateway_can_be_named() -> None:
    assert parsed(f"{SPEC},cells=messages:chat+chat:chat").cells == (MESSAGES_TO_CHAT, CHAT_TO_CHAT)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("name=x,pid=1,chat=m", "url missing"),
        ("name=x,url=http://127.0.0.1:1,pid=1", "no model"),
        ("name=x,url=http://127.0.0.1:1,pid=one,chat=m", "not a number"),
        ("name=x,url=http://10.0.0.1:1,pid=1,chat=m", "only this machine"),
        ("name=x,url=https://127.0.0.1:1,pid=1,chat=m", "only this machine"),
        (f"{SPEC},cells=chat:responses", "needs a model"),
        (f"{SPEC},cells=chat", "CLIENT:UPSTREAM"),
        (f"{SPEC},name=y", "twice"),
        (f"{SPEC},color=red", "not KEY=VALUE"),
        (f"{SPEC},header=x", "NAME:VALUE"),
    ],
)
def test_a_gateway_that_is_not_understood_is_refused(spec: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parsed(spec)


def test_the_upstream_is_where_gateways_expect_it() -> None:
    assert options(["--only", "relay"]).upstream_port == 0
    assert options(["--only", "relay", "--gateway", SPEC]).upstream_port == UPSTREAM_PORT
    assert options(["--gateway", SPEC, "--upstream-port", "5"]).upstream_port == 5


def test_a_target_that_cannot_be_had_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, why in (
        (["--only", "nothing"], "no such target"),
        (["--only", "relay", "--gateway", SPEC.replace("=x,", "=relay,")], "twice"),
        (["--gateway", "name=x"], "missing"),
    ):
        with pytest.raises(SystemExit):
            options(arguments)
        assert why in capsys.readouterr().err


def test_a_process_that_is_not_held_to_the_core_is_a_caveat() -> None:
    allowed = os.sched_getaffinity(0)
    assert placement(os.getpid(), None) == ()
    assert "cores" in placement(os.getpid(), max(allowed) + 1)[0]
    with pytest.raises(RuntimeError, match="cannot be measured"):
        placement(2**22 + 1, None)


async def test_a_cell_that_goes_elsewhere_is_not_measured(
    relay: targets.Target, upstream: targets.Upstreams
) -> None:
    """The relay passes Messages on as Messages, so it is no gateway from Messages to Chat."""
    assert await probe(relay, CHAT_TO_CHAT, upstream.plain) == Probed()
    probed = await probe(relay, MESSAGES_TO_CHAT, upstream.plain)
    assert probed.failure == "it asked its upstream for anthropic_messages"


def test_recipes_configure_loopback_alone(tmp_path: Path) -> None:
    site = Site(tmp_path / "installed", tmp_path, 4001, 4002)
    for recipe in RECIPES.values():
        start = recipe.start(site)
        text = json.dumps([*start.files.values(), start.command, str(start.access)])
        assert "127.0.0.1" in text, recipe.name
        assert "0.0.0.0" not in text, recipe.name
        assert "4001" in text, recipe.name
        assert "4002" in text, recipe.name
        assert recipe.all_cells(), recipe.name
        assert recipe.name not in OWN


def test_recipes_pin_what_they_install() -> None:
    for recipe, version in (
        (litellm.RECIPE, f"=={litellm.VERSION}"),
        (llm_rosetta.RECIPE, f"=={llm_rosetta.VERSION}"),
        (portkey.RECIPE, f"@{portkey.VERSION}"),
    ):
        assert version in recipe.commands()


def test_what_was_installed_by_other_commands_is_not_installed(tmp_path: Path) -> None:
    recipe = litellm.RECIPE
    (tmp_path / recipe.name).mkdir()
    stamp = tmp_path / recipe.name / "installed"
    assert not recipe.is_installed(tmp_path)
    stamp.write_text(recipe.commands())
    assert recipe.is_installed(tmp_path)
    stamp.write_text(recipe.commands().replace(litellm.VERSION, "0.1"))
    assert not recipe.is_installed(tmp_path)


CLOSING = """
import http.server, os, sys, urllib.request
assert "BENCH_SECRET" not in os.environ
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        url = f"http://127.0.0.1:{sys.argv[2]}{self.path}"
        with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
            self.send_header("content-type", answer.headers["content-type"])
            self.end_headers()
            while data := answer.read1():
                self.wfile.write(data)
http.server.ThreadingHTTPServer.request_queue_size = 256
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""A gateway that passes on, with HTTP/1.0: an answer ends with its connection."""


def closing(site: Site) -> Start:
    program = site.folder / "closing.py"
    command = (sys.executable, str(program), str(site.port), str(site.upstream))
    return Start(command, {program.name: CLOSING})


RECIPE = Recipe("closing", "A test.", (), closing, ("chat:chat", "messages:chat"), ("It closes.",))


async def test_a_peer_is_measured(
    upstream: targets.Upstreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_SECRET", "a key of the user")
    load = measure.Load(requests=20, streams=2, rate=20, seconds=1.5, lone_requests=3)
    with running(RECIPE, tmp_path, CORES, upstream.plain) as peer:
        assert await closes(peer, CHAT_TO_CHAT)
        rows = rows_of({peer.name: peer}, None, {peer.name: RECIPE.all_cells()})
        direct = targets.Target("direct", upstream.plain, os.getpid(), 0.0)
        results = await measure_all(rows, {peer.name: peer}, direct, upstream.plain, load, rounds=2)
    by_name = {row.name: figures for row, figures in results.rows}
    works, elsewhere = by_name["closing: chat → chat"], by_name["closing: messages → chat"]
    assert (works.failure, works.no_stream) == ("", "")
    assert len(works.request) == len(works.event) == 2
    assert min(works.request + works.event + works.first_token) > 0
    assert results.extremes["closing"].idle > 1e6
    assert works.agent > 0
    assert elsewhere.failure == "it asked its upstream for anthropic_messages"
    assert not elsewhere.request
    caveats = results.caveats["closing"]
    assert caveats[:2] == ["A test.", "It closes."]
    assert any("closes the connection" in caveat for caveat in caveats)


async def test_a_connection_that_ends_with_its_answer_is_replaced(
    upstream: targets.Upstreams, tmp_path: Path
) -> None:
    with running(RECIPE, tmp_path, CORES, upstream.plain) as peer:
        links = await connect(peer.port, 2, measure.MARK)
        first = list(links)
        answers = await repeat(links, CHAT_TO_CHAT.request(deltas=7), 6)
        assert [answer.marks for answer in answers] == [7] * 6
        assert links != first
        close(links)


def test_the_time_of_threads_that_have_ended_is_counted() -> None:
    before = cpu_seconds(os.getpid())
    spent: list[float] = []

    def work() -> None:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.05:
            pass
        spent.append(time.thread_time() - begun)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert cpu_seconds(os.getpid()) - before >= spent[0]


def test_what_a_target_left_behind_is_ended(tmp_path: Path) -> None:
    script = "import subprocess, time; subprocess.Popen(['sleep', '60']); print(1); time.sleep(60)"
    command = [sys.executable, "-u", "-c", script]
    with Child(command, core=None, log=tmp_path / "log") as child:
        for _ in range(200):
            if (tmp_path / "log").read_text():
                break
            time.sleep(0.02)
        left = descendants(child.pid)[1:]
        assert left
    for _ in range(200):
        if not any(is_running(pid) for pid in left):
            return
        time.sleep(0.02)
    raise AssertionError(f"{left} still run")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
