"""The requests that both gateways are sent, and the configuration that they have for these."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from bench.answers import ANSWERS, PATHS
from tests.clients.recordings import Turn, recordings
from tools.differential import damage
from tools.differential.corpus import Translation
from tools.differential.gateways import ADMIN_KEY, KEY, LIMITED_KEY, Exchange
from tools.differential.replay import Answer

Json = dict[str, Any]

_HEAD = f"""
[server]
port = $PORT
workers = $WORKERS
log_format = "json"

[storage]
path = "store.db"
key = "differential-store-key"

[admin]
key = "{ADMIN_KEY}"

[[clients]]
name = "plain"
key = "{KEY}"

[[clients]]
name = "limited"
key = "{LIMITED_KEY}"
team = "team"

[[clients.limits]]
kind = "requests"
amount = 12
window = "7d"

[[clients.limits]]
kind = "tokens"
amount = 4000
window = "total"
models = ["r-*"]

[[clients.limits]]
kind = "concurrent"
amount = 3

[[teams]]
name = "team"

[[teams.limits]]
kind = "cost"
amount = "0.001"
window = "total"

[[teams.limits]]
kind = "output_tokens"
amount = 50
window = "total"
mode = "soft"

[[prices]]
model = "*"
input = "1.25"
cached = "0.125"
output = "10"
"""

_UPSTREAM = """
[[upstreams]]
name = "{name}"
protocol = "{protocol}"
base_url = "$UPSTREAM"
models = ["m"]
{more}

[[accounts]]
name = "{name}-1"
upstream = "{name}"
key = "sk-{name}-1"

[[accounts]]
name = "{name}-2"
upstream = "{name}"
key = "sk-{name}-2"
priority = 1
"""


def good(protocol: str) -> Answer:
    """An ordinary answer of a protocol."""
    made = ANSWERS[protocol]
    stream = made.head + b"".join(made.delta(number) for number in range(3)) + made.tail(3)
    return Answer(made.full, stream)


CLIENTS = {name: PATHS[name] for name in damage.CLIENTS}
"""Where clients send their requests, by their protocol: those that have the model in the body."""


class Selection:
    """The requests of one run, and the configuration that leads them to upstreams.

    The model `r-UPSTREAM` leads to the upstream of that name. A translation with settings has a
    route of its own.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.upstreams: dict[str, tuple[str, str]] = {
            protocol: (protocol, 'account_rules = "none"') for protocol in PATHS
        }
        self.routes: dict[str, tuple[str, Json]] = {
            f"r-{protocol}": (protocol, {}) for protocol in PATHS
        }
        self.exchanges: list[Exchange] = []

    def configuration(self) -> str:
        """The text of the configuration file."""
        parts = [_HEAD.replace("$WORKERS", str(self.workers))]
        for name, (protocol, more) in self.upstreams.items():
            parts.append(_UPSTREAM.format(name=name, protocol=protocol, more=more))
        for name, (upstream, settings) in self.routes.items():
            route = {"match": name, "upstream": upstream, "model": "m", **settings}
            lines = [f"{key} = {_toml(value)}\n" for key, value in route.items()]
            parts.append("\n[[routes]]\n" + "".join(lines))
        return "".join(parts)

    # --- what is asked ----------------------------------------------------------------------------

    def add_translations(self, translations: Sequence[Translation], most: int) -> None:
        """Recorded translations, about `most` of them, evenly chosen."""
        every = max(1, len(translations) // most)
        names: dict[str, str] = {}
        for translation in translations[::every]:
            if translation.client not in CLIENTS or translation.upstream not in PATHS:
                continue
            try:
                body = json.loads(translation.body)
            except (ValueError, RecursionError):
                continue
            if not isinstance(body, dict) or not isinstance(body.get("model"), str):
                continue
            settings = {name: value for name, value in translation.settings.items() if value}
            if (
                set(settings) - {"options", "capabilities", "model"}
                or len(translation.body) > 200_000
            ):
                continue
            settings.pop("model", None)
            upstream = translation.upstream
            key = json.dumps([upstream, settings])
            if settings and key not in names:
                names[key] = f"s{len(names)}"
                self.routes[names[key]] = upstream, settings
            answer = good(upstream)
            whole = translation.wholes[0] if translation.wholes else answer.whole
            stream = translation.streams[0] if translation.streams else answer.stream
            self._ask(
                "translations",
                translation.client,
                upstream,
                {**body, "model": names.get(key, f"r-{upstream}")},
                (Answer(whole, stream),),
            )

    def add_recorded(self, translations: Sequence[Translation]) -> None:
        """Every turn of the recorded clients, to each protocol, with answers of all kinds."""
        rng = random.Random(0)
        wholes = {name: [good(name).whole] for name in PATHS}
        streams = {name: [good(name).stream] for name in PATHS}
        for translation in translations:
            if translation.upstream not in PATHS:
                continue
            wholes[translation.upstream] += translation.wholes
            streams[translation.upstream] += [
                one for one in translation.streams if len(one) < 20_000
            ]
        for recording in recordings():
            if recording.protocol not in CLIENTS:
                continue
            for turn in recording.turns:
                for upstream in PATHS:
                    answer = Answer(rng.choice(wholes[upstream]), rng.choice(streams[upstream]))
                    self._ask_turn(recording.protocol, upstream, turn, answer)

    def _ask_turn(self, client: str, upstream: str, turn: Turn, answer: Answer) -> None:
        skipped = {"host", "content-length", "authorization", "x-api-key", "connection"}
        headers = {
            name: value or "filler"
            for name, value in turn.headers.items()
            if name not in skipped and not name.startswith("accept-enc")
        }
        body = json.dumps({**turn.body, "model": f"r-{upstream}"}, ensure_ascii=False).encode()
        self.exchanges.append(
            Exchange(
                "clients", f"{client}>{upstream}", turn.target, body, "POST", headers, (answer,)
            )
        )

    def add_damaged(self, streams: dict[str, list[bytes]], count: int, seed: int) -> None:
        """Damaged streams; some end because the connection does."""
        rng = random.Random(seed)
        served = {name: known for name, known in streams.items() if name in PATHS}
        for translation in damage.damaged_translations(served, count, seed):
            answer = Answer(stream=translation.streams[0], is_cut=rng.random() < 0.2)
            body = {**json.loads(translation.body), "model": f"r-{translation.upstream}"}
            self._ask("damaged", translation.client, translation.upstream, body, (answer,))

    def add_faults(self) -> None:
        """Refusals and failures of accounts, each at an upstream of its own with two accounts."""
        for protocol in PATHS:
            for number, (answer, retries) in enumerate(_faults(protocol)):
                name = f"f{number}-{protocol}"
                self.upstreams[name] = protocol, ""
                self.routes[f"r-{name}"] = name, {}
                answers = (answer, good(protocol)) if retries else (answer,)
                for client in CLIENTS:
                    for streams in (False, True):
                        body = {**damage.request(client), "model": f"r-{name}", "stream": streams}
                        self._ask("faults", client, protocol, body, answers)

    def add_face(self) -> None:
        """Requests that need no upstream, or are refused."""
        for path in (
            "/v1/models",
            "/v1/models/r-openai_chat",
            "/v1/models/none",
            "/healthz",
            "/readyz",
        ):
            for headers in ({}, {"anthropic-version": "2023-06-01"}, {"x-api-key": "sk-wrong-key"}):
                self._plain("GET", path, headers=headers)
        for client, path in CLIENTS.items():
            body = {**damage.request(client), "model": "r-openai_chat"}
            for method in ("GET", "PUT", "DELETE", "OPTIONS", "HEAD"):
                self._plain(method, path)
            for wrong in (
                b"",
                b"{",
                b"[]",
                b"\xff",
                b"null",
                b'{"model":5}',
                json.dumps(body).encode(),
            ):
                self._plain("POST", path, wrong)
                self._plain("POST", path, wrong, {"x-api-key": "sk-wrong-key"})
                self._plain("POST", path, wrong, {"content-type": "text/plain"})
            self._plain("POST", path, json.dumps({**body, "model": "nobody-knows-it"}).encode())
            self._plain("POST", path, json.dumps(body).encode(), {"x-dragoman-policy": "strict"})
            self._plain("POST", path, json.dumps(body).encode(), {"x-dragoman-policy": "wrong"})
            self._plain("POST", path + "/none", json.dumps(body).encode())
        for path in ("/v1/messages/count_tokens", "/v1/responses/input_tokens"):
            client = "anthropic_messages" if "messages" in path else "openai_responses"
            for upstream in PATHS:
                body = {**damage.request(client), "model": f"r-{upstream}"}
                self._plain("POST", path, json.dumps(body).encode())

    def add_stored(self) -> None:
        """Stored responses: made, gone on from, read and removed."""
        for upstream in PATHS:
            for streams in (False, True):
                first = {
                    "model": f"r-{upstream}",
                    "input": "first",
                    "store": True,
                    "stream": streams,
                }
                for body in (first, {**first, "input": "more", "previous_response_id": "$ID"}):
                    self._ask("stored", "openai_responses", upstream, body, (good(upstream),))
                for method, path in (
                    ("GET", "/v1/responses/$ID"),
                    ("GET", "/v1/responses/$ID/input_items"),
                    ("GET", "/v1/responses/$ID/input_items?order=asc&limit=1"),
                    ("POST", "/v1/responses/$ID/cancel"),
                    ("DELETE", "/v1/responses/$ID"),
                    ("GET", "/v1/responses/$ID"),
                ):
                    self._plain(method, path, group="stored")

    def add_limited(self) -> None:
        """Requests of a key with limits until it is refused, and what it is told meanwhile."""
        for number in range(16):
            upstream = list(PATHS)[number % 3]
            for client in CLIENTS:
                body = {
                    **damage.request(client),
                    "model": f"r-{upstream}",
                    "stream": number % 2 == 0,
                }
                body |= (
                    {"max_output_tokens": 30}
                    if client == "openai_responses"
                    else {"max_tokens": 30}
                )
                headers = {"x-api-key": LIMITED_KEY}
                self._ask("limits", client, upstream, body, (good(upstream),), headers)
            self._plain("GET", "/v1/key", headers=headers, group="limits", after_s=0.6)

    def add_admin(self) -> None:
        """What an administrator does: every kind of thing made, changed, listed and removed."""
        for method, path, body in _ADMIN:
            headers = {"authorization": f"Bearer {ADMIN_KEY}", "x-api-key": ""}
            data = json.dumps(body).encode() if body is not None else b""
            answers = (good("openai_chat"),)
            self.exchanges.append(
                Exchange("admin", "admin", f"/admin{path}", data, method, headers, answers, 0.3)
            )

    def _ask(
        self,
        group: str,
        client: str,
        upstream: str,
        body: Json,
        answers: tuple[Answer, ...],
        headers: dict[str, str] | None = None,
    ) -> None:
        data = json.dumps(body).encode("utf-8", "surrogatepass")
        cell = f"{client}>{upstream}"
        self.exchanges.append(
            Exchange(group, cell, CLIENTS[client], data, "POST", headers or {}, answers)
        )

    def _plain(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        group: str = "face",
        after_s: float = 0.0,
    ) -> None:
        answers = (good("openai_chat"),)
        self.exchanges.append(
            Exchange(group, path, path, body, method, headers or {}, answers, after_s)
        )


def _faults(protocol: str) -> Iterator[tuple[Answer, bool]]:
    """Failures of an upstream, and whether its next account answers."""
    errors: tuple[tuple[int, Json], ...] = (
        (400, {"type": "invalid_request_error", "message": "bad field", "param": "x"}),
        (401, {"type": "authentication_error", "message": "bad key"}),
        (402, {"type": "billing_error", "message": "pay first"}),
        (403, {"type": "permission_error", "message": "not yours"}),
        (404, {"type": "not_found_error", "message": "no such model", "code": "model_not_found"}),
        (413, {"type": "request_too_large", "message": "too large"}),
        (429, {"type": "rate_limit_error", "message": "slow down"}),
        (429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "spent"}),
        (500, {"type": "api_error", "message": "broken"}),
        (503, {"type": "overloaded_error", "message": "busy"}),
        (529, {"type": "overloaded_error", "message": "busy"}),
    )
    for status, error in errors:
        body = json.dumps({"type": "error", "error": error}).encode()
        # Long enough that no random part of it decides whether a client is to wait.
        headers = (("retry-after", "20000"),) if status in (402, 429) else ()
        for retries in (True, False):
            yield Answer(body, b"", status, headers), retries
    usual = good(protocol)
    yield Answer(b"<html>not JSON</html>", b"<html>not JSON</html>", 502), False
    yield Answer(b"<html>not JSON</html>", b"<html>not events</html>"), True
    yield Answer(usual.whole[:-40], usual.stream[:300], is_cut=True), True
    yield Answer(b"", b""), True
    for retries in (True, False):
        error_body = json.dumps({"error": {"type": "server_error", "message": "late"}}).encode()
        yield Answer(error_body, b"data: " + error_body + b"\n\n"), retries


_LIMIT: Json = {"kind": "requests", "amount": 5, "window": "1h"}
_ADMIN: tuple[tuple[str, str, Json | None], ...] = (
    (
        "POST",
        "/accounts",
        {"name": "a1", "upstream": "openai_chat", "key": "sk-stored-1", "weight": 2},
    ),
    ("POST", "/accounts", {"name": "a1", "upstream": "openai_chat", "key": "sk-stored-1"}),
    ("POST", "/accounts", {"name": "a2", "upstream": "nowhere", "key": "sk-stored-2"}),
    ("PATCH", "/accounts/a1", {"priority": 3, "weight": None}),
    ("POST", "/accounts/a1/disable", {"reason": "test"}),
    ("GET", "/accounts/a1", None),
    ("POST", "/accounts/a1/enable", None),
    ("POST", "/accounts/a1/test", {"model": "m"}),
    ("GET", "/accounts?limit=3", None),
    ("GET", "/accounts/none", None),
    ("POST", "/accounts/import?format=json", {"accounts": [{"name": "a3", "upstream": "nowhere"}]}),
    ("DELETE", "/accounts/a1", None),
    ("POST", "/teams", {"name": "t1", "limits": [_LIMIT]}),
    ("POST", "/keys", {"name": "k1", "team": "t1", "limits": [_LIMIT]}),
    ("POST", "/keys", {"name": "k1"}),
    ("POST", "/keys", {"name": "k2", "unknown": 1}),
    ("PATCH", "/keys/k1", {"note": "changed"}),
    ("GET", "/keys/k1", None),
    ("GET", "/keys?state=true", None),
    ("POST", "/keys/k1/limits", {"kind": "cost", "amount": "1.50", "window": "month"}),
    ("PATCH", "/keys/k1/limits/1", {"amount": 6}),
    ("POST", "/keys/k1/limits/1/grant", {"amount": 2, "windows": 1}),
    ("POST", "/keys/k1/limits/1/reset", None),
    ("POST", "/keys/k1/simulate", {"model": "r-openai_chat", "input_tokens": 10}),
    ("GET", "/keys/k1/limits", None),
    ("DELETE", "/keys/k1/limits/2", None),
    ("POST", "/keys/k1/rotate", None),
    ("POST", "/keys/k1/disable", None),
    ("POST", "/keys/k1/enable", None),
    ("GET", "/teams/t1", None),
    ("GET", "/teams", None),
    ("DELETE", "/keys/k1", None),
    ("DELETE", "/teams/t1", None),
    ("POST", "/admins", {"name": "ann", "role": "viewer"}),
    ("PATCH", "/admins/ann", {"role": "admin"}),
    ("POST", "/admins/ann/rotate", None),
    ("GET", "/admins", None),
    ("DELETE", "/admins/ann", None),
    ("GET", "/usage?by=key,model", None),
    ("GET", "/usage?by=account", None),
    ("GET", "/requests?limit=5", None),
    ("GET", "/losses?by=kind", None),
    ("GET", "/explain?model=r-openai_chat&key=plain", None),
    ("GET", "/routes", None),
    ("GET", "/guides?model=r-openai_chat", None),
    ("GET", "/audit?limit=40", None),
    ("GET", "/prices?model=m", None),
    ("POST", "/prices/reprice?dry_run=true", None),
    ("GET", "/config", None),
    ("GET", "/config/pending", None),
    ("POST", "/reload", None),
    ("GET", "/limits", None),
    ("GET", "/health", None),
    ("POST", "/translate", {"from": "openai_chat", "body": '{"model":"m","messages":[]}'}),
    ("GET", "/nothing", None),
    ("DELETE", "/config", None),
)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(name)} = {_toml(item)}" for name, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
