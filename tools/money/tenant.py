"""`python -m tools.money.tenant [--seconds N]`: a hostile key beside good ones, each with a budget.

A gateway with two workers and a simulator run as they are. The good keys ask in every protocol,
whole and streamed. The hostile one leaves streams at their last words, cancels what it asked for,
asks for long answers by the member that nobody looks at, writes members in other letters, names
dear models, hides text as files, and never stops. What a request uses is part of its model's name,
so that the simulator's requests tell what was really used.

In the end: no good request was refused or failed, each good key has used exactly what its requests
cost, and the hostile one no less than its own did and no more than it may.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dragoman.lab.simulator.server import create_app
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.gateway.clients import PATHS, body
from tests.gateway.http import Answer, Connection, call
from tests.gateway.processes import gateway_process

GOOD: Final = ("chat", "messages", "responses")
"""Good keys, each of which speaks the protocol of its name."""

_BUDGETS: Final[Mapping[str, int]] = {**dict.fromkeys(GOOD, 10_000), "hostile": 500}
"""US dollars; a token costs a thousandth."""

_KEYS: Final = "".join(
    f"""
[[clients]]
name = "{name}"
key = "sk-of-{name}"
[[clients.limits]]
kind = "cost"
amount = "{budget}"
window = "total"
clamp = {"true" if name in GOOD else "false"}
[[clients.limits]]
kind = "tokens"
amount = 1_000_000_000
window = "day"
"""
    for name, budget in _BUDGETS.items()
)
TABLES: Final = f"""
[[prices]]
model = "sim-*"
input = "1000"
output = "1000"
[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{{base_url}}"
[[upstreams]]
name = "responses"
protocol = "openai_responses"
base_url = "{{base_url}}"
[[accounts]]
name = "messages-0"
upstream = "messages"
key = "sk-m"
[[accounts]]
name = "responses-0"
upstream = "responses"
key = "sk-r"
{_KEYS}"""

_MOST_MEGABYTES: Final = 350
"""What a worker may take: the budget of bodies, and itself."""

_TOKENS: Final = re.compile(rb"sim-text\?input=(\d+)&output=(\d+)")
_OWNER: Final = re.compile(rb"asked by (\w+)")


def model_of(upstream: str, given: int, output: int, more: str = "") -> str:
    """A model that uses so many tokens."""
    return f"{upstream}/sim-text?input={given}&output={output}&words=12{more}"


class Tenant:
    """One key, used from several threads until `until`."""

    def __init__(self, name: str, url: str, until: float) -> None:
        self.name, self.url, self.until = name, url, until
        self.statuses: Counter[int] = Counter()
        self.taken: list[tuple[float, float]] = []
        """When each answered request began, and its seconds."""

    def asked(self, api: str, model: str, text: str = "", **more: Any) -> dict[str, Any]:
        """The body of a request."""
        if api == "responses":
            more.setdefault("store", False)
        return body(api, model, f"asked by {self.name} {text}", **more)

    def ask(self, api: str, asked: dict[str, Any]) -> Answer:
        """Ask, and wait for the answer."""
        begun = time.perf_counter()
        answer = call(self.url, "POST", PATHS[api], asked, key=f"sk-of-{self.name}")
        self.taken.append((begun, time.perf_counter() - begun))
        self.statuses[answer.status] += 1
        return answer

    def leave(self, api: str, asked: dict[str, Any], after: int) -> None:
        """Ask for a stream, and leave after so many chunks of it."""
        with Connection(self.url) as client:
            headers = {"authorization": f"Bearer sk-of-{self.name}"}
            client.send("POST", PATHS[api], {**asked, "stream": True}, headers)
            head = client.head()
            self.statuses[head.status] += 1
            if head.status == 200:
                for _ in range(after):
                    if not client.chunk():
                        break

    def run(self, act: Callable[[Tenant, random.Random], None], seed: int) -> None:
        """Act until the end."""
        chance = random.Random(f"{self.name} {seed}")
        while time.monotonic() < self.until:
            try:
                act(self, chance)
            except (OSError, ValueError):
                self.statuses[0] += 1


def be_good(tenant: Tenant, chance: random.Random) -> None:
    """A request that is paid for."""
    upstream = chance.choice(GOOD)
    model = model_of(upstream, chance.randint(20, 60), chance.randint(1, 90))
    asked = tenant.asked(tenant.name, model, stream=chance.random() < 0.5)
    limit = "max_output_tokens" if tenant.name == "responses" else "max_tokens"
    tenant.ask(tenant.name, {**asked, limit: 100})
    time.sleep(0.05)


def do_harm(tenant: Tenant, chance: random.Random) -> None:
    """Something to get more than is paid for."""
    api, upstream = chance.choice(GOOD), chance.choice(GOOD)
    limit = "max_output_tokens" if api == "responses" else "max_tokens"
    model = model_of(upstream, 30, 90)
    asked = {**tenant.asked(api, model), limit: 100}
    match chance.randrange(8):
        case 0 | 1:
            slow = tenant.asked(api, model_of(upstream, 30, 90, "&delay_ms=2"))
            tenant.leave(api, {**slow, limit: 100}, chance.randint(1, 16))
        case 2:
            low, high = chance.choice(
                (("max_completion_tokens", "max_tokens"), ("max_tokens", "n_predict"))
            )
            tenant.ask("chat", {**tenant.asked("chat", model), low: 1, high: 60_000})
        case 3:
            name = chance.choice(("MODEL", "Max_Tokens", "N", "Stream_Options", "Model"))
            tenant.ask(api, {**asked, name: chance.choice((1, 10**6, "sim-dear"))})
        case 4:
            tenant.ask("chat", tenant.asked("chat", model, models=["sim-text", "no-such-model"]))
        case 5:
            text = "base64 " + "a" * 40_000 + " word" * 4000
            long = tenant.asked(api, model_of(upstream, 9000, 90), text)
            tenant.ask(api, {**long, limit: 100})
        case 6:
            tenant.ask(api, {**asked, limit: chance.choice((10**7, 6e4, 0))})
        case _:
            if api == "messages":
                tenant.ask(api, asked)
            elif api == "chat":
                compact(tenant, model)
            else:
                cancel(tenant, asked)


def cancel(tenant: Tenant, asked: dict[str, Any]) -> None:
    """Ask for a response in the background, and cancel it."""
    answer = tenant.ask("responses", {**asked, "background": True, "store": True})
    if answer.status == 200:
        path = f"/v1/responses/{answer.json['id']}/cancel"
        call(tenant.url, "POST", path, {}, key=f"sk-of-{tenant.name}")


def compact(tenant: Tenant, model: str) -> None:
    """Have a conversation of many messages compacted."""
    said = {"role": "user", "content": f"asked by {tenant.name}"}
    path = "/v1/responses/compact"
    asked = {"model": model, "input": [said] * 5000}
    tenant.statuses[call(tenant.url, "POST", path, asked, key=f"sk-of-{tenant.name}").status] += 1


def used(simulator: RunningSimulator) -> Counter[str]:
    """Thousandths of a dollar that the requests of each key really cost."""
    found: Counter[str] = Counter()
    for request in simulator.requests:
        if not request.scenario:
            continue  # the simulator has refused it
        tokens, owner = _TOKENS.search(request.body), _OWNER.search(request.body)
        if tokens is not None and owner is not None:
            found[owner[1].decode()] += int(tokens[1]) + int(tokens[2])
    return found


def counted(url: str, name: str) -> tuple[int, int]:
    """Thousandths of a dollar that a key has used and reserved, as the gateway tells it."""
    limits = call(url, "GET", "/v1/key", key=f"sk-of-{name}").json["limits"]
    cost = next(one for one in limits if one["kind"] == "cost")
    return round(float(cost["used"]) * 1000), round(float(cost["reserved"]) * 1000)


def most_memory(pid: int) -> int:
    """Bytes of memory that a process, and those it has started, each took at most: those of the one
    that took most."""
    tasks = Path(f"/proc/{pid}/task/{pid}")
    children = [int(child) for child in (tasks / "children").read_text().split()]
    status = Path(f"/proc/{pid}/status").read_text()
    most = re.search(r"VmHWM:\s+(\d+) kB", status)
    own = 1024 * int(most[1]) if most is not None else 0
    return max([own, *map(most_memory, children)])


def p99(taken: list[float]) -> float:
    """Milliseconds that a hundredth of these seconds exceeds."""
    return round(1000 * sorted(taken)[int(len(taken) * 0.99)], 1) if taken else 0.0


def play(seconds: float, folder: Path, alone_s: float = 0.0) -> dict[str, Any]:
    """Good keys alone, and then everything for so long. Returns what was found."""
    with running_simulator(create_app(record=200_000, record_bytes=2 * 10**9)) as simulator:
        tables = TABLES.replace("{base_url}", simulator.base_url)
        with gateway_process(
            folder, simulator.base_url, {"a": "sk-a"}, workers=2, tables=tables, sync_s=0.2
        ) as gateway:
            until = time.monotonic() + alone_s + seconds
            tenants = [Tenant(name, gateway.url, until) for name in (*GOOD, "hostile")]
            threads = [
                threading.Thread(target=one.run, args=(act, number))
                for one in tenants
                for act, count in ((be_good, 1) if one.name in GOOD else (do_harm, 3),)
                for number in range(count)
            ]
            for thread in threads[: len(GOOD)]:
                thread.start()
            time.sleep(alone_s)
            since = time.perf_counter()
            for thread in threads[len(GOOD) :]:
                thread.start()
            for thread in threads:
                thread.join()
            deadline = time.monotonic() + 30
            while any(counted(gateway.url, one.name)[1] for one in tenants):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            real = used(simulator)
            megabytes = most_memory(gateway.process.pid) // 10**6
            return {
                one.name: {
                    "statuses": dict(one.statuses),
                    "budget": _BUDGETS[one.name] * 1000,
                    "used": counted(gateway.url, one.name)[0],
                    "reserved": counted(gateway.url, one.name)[1],
                    "real": real[one.name],
                    "ms_p99_alone": p99([took for begun, took in one.taken if begun < since]),
                    "ms_p99": p99([took for begun, took in one.taken if begun >= since]),
                    "megabytes": megabytes,
                }
                for one in tenants
            }


def faults(found: Mapping[str, Any]) -> list[str]:
    """What is wrong with what was found."""
    wrong = [
        f"{name}: {one['reserved']} reserved" for name, one in found.items() if one["reserved"]
    ]
    for name in GOOD:
        one = found[name]
        if set(one["statuses"]) != {200}:
            wrong.append(f"{name}: {one['statuses']}")
        if one["used"] != one["real"]:
            wrong.append(f"{name}: {one['used']} used, {one['real']} real")
    one = found["hostile"]
    if not one["real"] <= one["used"] <= one["budget"]:
        wrong.append(f"hostile: {one['real']} real, {one['used']} used of {one['budget']}")
    if one["megabytes"] > _MOST_MEGABYTES:
        wrong.append(f"a process took {one['megabytes']} MB")
    return wrong


def main() -> int:
    """Play, and print what was found."""
    parser = argparse.ArgumentParser(prog="tools.money.tenant", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--alone", type=float, default=30.0, help="seconds without harm, before")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragoman-tenant-") as folder:
        found = play(chosen.seconds, Path(folder), chosen.alone)
    wrong = faults(found)
    sys.stdout.write(f"{json.dumps(found, indent=1)}\n")
    for one in wrong:
        sys.stdout.write(f"{one}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
