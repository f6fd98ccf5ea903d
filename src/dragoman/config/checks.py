"""Checks that types cannot express: references, duplicates, routes that are never reached."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path as Directory
from urllib.parse import urlsplit

from dragoman.canonical.options import Capabilities
from dragoman.config import managed_checks, rule_checks
from dragoman.config.access_checks import access_faults, key_fault
from dragoman.config.access_rules import ANYONE
from dragoman.config.convert import suggestion
from dragoman.config.credential_checks import credential_faults, token_faults
from dragoman.config.credentials import signs
from dragoman.config.extras import missing_extra
from dragoman.config.files import BadFileName, file_at
from dragoman.config.limits import limit_faults
from dragoman.config.names import covers
from dragoman.config.secret import Secret, UnavailableSecret
from dragoman.config.settings import Client, Condition, Config, OwnPrice, Route, Storage, Upstream
from dragoman.config.sign_in import SignIn
from dragoman.config.toml_lines import Path
from dragoman.config.windows import Rolling, parse_window
from dragoman.protocols import CODECS

Fault = tuple[Path, str]


def errors(config: Config) -> Iterator[Fault]:
    """Faults that make `config` unusable, each with its path."""
    yield from _duplicates("clients", (entry.name for entry in config.clients))
    yield from _duplicates("upstreams", (entry.name for entry in config.upstreams))
    yield from _duplicates("accounts", (entry.name for entry in config.accounts))
    yield from _duplicates("teams", (entry.name for entry in config.teams))
    yield from _client_keys(config.clients)
    yield from _access(config)
    yield from _admin_key(config)
    yield from _unknown_upstreams(config)
    for index, upstream in enumerate(config.upstreams):
        yield from _url(upstream.base_url, ("upstreams", index, "base_url"), ("http", "https"))
        if not upstream.codec.endpoint.offers(upstream.service):
            path = ("upstreams", index, "service")
            able = [
                name for name, codec in CODECS.items() if codec.endpoint.offers(upstream.service)
            ]
            yield path, f"it offers {' and '.join(able)}, not {upstream.protocol}"
            continue
        if upstream.stored_responses == "pass" and not upstream.codec.endpoint.stores_responses:
            path = ("upstreams", index, "stored_responses")
            able = [name for name, codec in CODECS.items() if codec.endpoint.stores_responses]
            yield path, f"only an {' or '.join(able)} upstream can keep responses itself"
        if upstream.inference_profiles and upstream.service != "bedrock_invoke":
            path = ("upstreams", index, "inference_profiles")
            yield path, 'only an upstream with service = "bedrock_invoke" has them'
        if upstream.websocket != "off" and upstream.endpoint.socket_turn is None:
            path = ("upstreams", index, "websocket")
            able = [name for name, codec in CODECS.items() if codec.endpoint.socket_turn]
            yield path, f"only an {' or '.join(able)} upstream can be called over WebSocket"
        if upstream.proxy is not None:
            yield from _secret_url(upstream.proxy, ("upstreams", index, "proxy"), _PROXIES)
        for number, proxy in enumerate(upstream.proxies):
            yield from _secret_url(proxy, ("upstreams", index, "proxies", number), _PROXIES)
        yield from rule_checks.errors(upstream.rules, ("upstreams", index, "rules"))
        given = upstream.capabilities.given
        yield from _without_effect(given, upstream, ("upstreams", index, "capabilities"))
    upstreams = {upstream.name: upstream for upstream in config.upstreams}
    for index, route in enumerate(config.routes):
        target = upstreams.get(route.upstream)
        if route.capabilities is not None and target is not None and not route.fallbacks:
            own = route.capabilities.given - target.capabilities.given
            yield from _without_effect(own, target, ("routes", index, "capabilities"))
    for index, account in enumerate(config.accounts):
        if account.upstream in upstreams:
            target = upstreams[account.upstream]
            for name, problem in credential_faults(account, target, config.storage):
                yield ("accounts", index, *name), problem
        for place, problem in limit_faults(account.limits):
            yield ("accounts", index, *place), problem
        if _is_quoted(account.key):
            yield ("accounts", index, "key"), "has quotes around it: take them off where it is"
        if account.proxy is not None:
            yield from _secret_url(account.proxy, ("accounts", index, "proxy"), _PROXIES)
    for index, route in enumerate(config.routes):
        yield from _fallbacks(route, [entry.name for entry in config.upstreams], index)
    if config.webhook.url is not None:
        yield from _secret_url(config.webhook.url, ("webhook", "url"), ("http", "https"))
    if config.request_check is not None:
        place = ("request_check", "url")
        yield from _secret_url(config.request_check.url, place, ("http", "https"))
    if config.telemetry.forward_to is not None:
        place = ("telemetry", "forward_to")
        yield from _secret_url(config.telemetry.forward_to, place, ("http", "https"))
    yield from _search(config)
    yield from _file_names(config)
    yield from _storage(config.storage)
    yield from _prices(config)
    yield from _sign_in(config)
    yield from _jwt_issuers(config)
    yield from _mcp_servers(config)
    yield from managed_checks.errors(config)
    yield from _traces(config)
    server = config.server
    if server.tls_key is not None and server.tls_certificate is None:
        yield ("server", "tls_key"), "has no effect without tls_certificate"
    if server.memory_limit_bytes < _COPIES * server.body_limit_bytes:
        message = f"at least {_COPIES} times body_limit_bytes, or the largest bodies never fit"
        yield ("server", "memory_limit_bytes"), message
    for index, network in enumerate(server.trusted_proxies):
        if not _is_network(network):
            yield (
                ("server", "trusted_proxies", index),
                "expected an address, a network such as 10.0.0.0/8, or unix",
            )
    asks_nobody = not (config.clients or config.sign_in or config.jwt_issuers)
    is_open = asks_nobody and not server.require_key
    if is_open and server.unix_socket is None and not is_loopback(server.host):
        yield (
            ("server", "host"),
            "anyone who reaches this address could spend your accounts: "
            "add [[clients]] with keys, set require_key, or listen on 127.0.0.1",
        )


def _without_effect(given: frozenset[str], upstream: Upstream, place: Path) -> Iterator[Fault]:
    """Capabilities that only upstreams of other protocols have."""
    part = upstream.codec.endpoint.capabilities
    own = Capabilities.__struct_fields__ + (() if part is None else part.__struct_fields__)
    for name in sorted(given.difference(own)):
        yield (
            (*place, name),
            f"has no effect: {upstream.protocol} upstreams have no such capability",
        )


def _sign_in(config: Config) -> Iterator[Fault]:
    settings = config.sign_in
    if settings is None:
        return
    if not _can_import("joserfc"):
        yield ("sign_in",), missing_extra("sign-in")
    for name in ("public_url", "issuer"):
        if not is_safe_url(getattr(settings, name)):
            yield ("sign_in", name), "must be https://, or http:// with an address of this machine"
    if urlsplit(settings.public_url).path not in ("", "/"):
        yield ("sign_in", "public_url"), "must have no path"
    if "openid" not in settings.scopes:
        yield ("sign_in", "scopes"), "openid is required"
    if config.storage.path == "" and config.storage.url is None:
        yield ("sign_in",), "needs a store for people and their sessions: [storage]"
    if config.storage.key is None:
        yield ("storage", "key"), "is required for [sign_in], which stores secrets of sessions"
    known = [upstream.name for upstream in config.upstreams]
    for index, rule in enumerate(settings.rules):
        for path, message in access_faults(rule, known):
            yield ("sign_in", "rules", index, *path), message


def _jwt_issuers(config: Config) -> Iterator[Fault]:
    known = [upstream.name for upstream in config.upstreams]
    yield from _duplicates("jwt_issuers", (one.name for one in config.jwt_issuers))
    seen = set() if config.sign_in is None else {config.sign_in.public_url.rstrip("/")}
    for index, issuer in enumerate(config.jwt_issuers):
        place = ("jwt_issuers", index)
        if not _can_import("joserfc"):
            yield place, missing_extra("sign-in")
        for name, url in (("issuer", issuer.issuer), ("jwks_url", issuer.jwks_url)):
            if url is not None and not is_safe_url(url):
                message = "must be https://, or http:// with an address of this machine"
                yield (*place, name), message
        if issuer.issuer in seen:
            yield (*place, "issuer"), "is the issuer of others, too"
        if issuer.name == "sub":
            yield (*place, "name"), "is what people without an e-mail address are named by"
        seen.add(issuer.issuer)
        if not issuer.algorithms:
            yield (*place, "algorithms"), "none is allowed, so no token is"
        for number, rule in enumerate(issuer.rules):
            if rule.role is not None:
                message = "has no effect: only people of [sign_in] open the dashboard"
                yield (*place, "rules", number, "role"), message
            for path, message in access_faults(rule, known):
                yield (*place, "rules", number, *path), message


def _mcp_servers(config: Config) -> Iterator[Fault]:
    yield from _duplicates("mcp_servers", (server.name for server in config.mcp_servers))
    for index, server in enumerate(config.mcp_servers):
        place = ("mcp_servers", index)
        yield from _url(server.url, (*place, "url"), ("http", "https"))
        if "@" in server.url.partition("://")[2].partition("/")[0]:
            yield (*place, "url"), "a key does not belong in the URL: put it in key or headers"
        if server.credentials is None:
            continue
        if server.key is not None:
            yield (*place, "credentials"), "excludes key: set one of them"
        for name, problem in token_faults(server.credentials, config.storage):
            yield (*place, *name), problem
        if signs(server.credentials):
            yield (*place, "credentials", "output"), "aws: requests to MCP servers are not signed"


def is_safe_url(url: str) -> bool:
    """Whether what is sent to a URL cannot be read on the way: it is https, or http to this
    machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if not host or parts.username is not None or parts.query or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _search(config: Config) -> Iterator[Fault]:
    search = config.search
    if search.url is not None:
        yield from _url(search.url, ("search", "url"), ("http", "https"))
    if search.engine == "searxng" and search.url is None:
        yield ("search", "url"), "is required: SearXNG runs on a server of your own"
    if not search.engine and (search.url is not None or search.key is not None):
        yield ("search", "engine"), "is required: searxng, brave or tavily"
    if search.engine:
        return
    if config.options.hosted_tools == "search":
        yield ("options", "hosted_tools"), "search needs the engine of [search]"
    for index, route in enumerate(config.routes):
        if "hosted_tools" in route.options.given and route.options.hosted_tools == "search":
            place = ("routes", index, "options", "hosted_tools")
            yield place, "search needs the engine of [search]"


NO_ACCOUNT = "has no account here: it is used only if the store has one"


def warnings(config: Config) -> Iterator[Fault]:
    """Settings that are allowed but probably not intended, each with its path."""
    for later, first in never_reached(config.routes).items():
        message = f"never reached: routes[{first}] ({config.routes[first].match}) matches first"
        yield ("routes", later, "match"), message
    served = {account.upstream for account in config.accounts}
    for index, upstream in enumerate(config.upstreams):
        # With a key for secrets in the store, accounts may well be there.
        if upstream.name not in served and config.storage.key is None:
            yield (
                ("upstreams", index, "name"),
                NO_ACCOUNT,
            )
        yield from rule_checks.warnings(upstream.rules, ("upstreams", index, "rules"))
    for index, price in enumerate(config.prices):
        for rate in high_rates(price):
            yield (
                ("prices", index, rate),
                f"more than {HIGH_PRICE} dollars for a million tokens: is that intended?",
            )
    teams = [team.name for team in config.teams]
    for index, client in enumerate(config.clients):
        if client.team is not None and client.team not in teams:
            yield (
                ("clients", index, "team"),
                f"no [[teams]] named {client.team}: unless the store has it, the key is refused",
            )
    if config.sign_in is not None:
        yield from _sign_in_warnings(config.sign_in, teams)
    for index, account in enumerate(config.accounts):
        if _is_variable(account.key):
            message = 'looks like the name of a variable, which is written "env:NAME"'
            yield ("accounts", index, "key"), message
    for index, server in enumerate(config.mcp_servers):
        for team in server.teams:
            if team not in teams:
                message = "no [[teams]] of this name: unless the store has it, nobody is in it"
                yield ("mcp_servers", index, "teams", team), message
    if config.storage.path == "" and config.storage.url is None and _has_long_limits(config):
        message = "no usage is stored: limits of an hour and more start again with the gateway"
        yield ("storage", "path"), message
    yield from _unverified_database(config.storage.url)
    if not config.upstreams:
        yield (), "no [[upstreams]]: every request will be refused"


def _sign_in_warnings(settings: SignIn, teams: Sequence[str]) -> Iterator[Fault]:
    if not settings.rules:
        yield ("sign_in", "rules"), "there is none, so nobody may sign in"
    for index, rule in enumerate(settings.rules):
        if rule.team is not None and rule.team not in teams:
            message = f"no [[teams]] named {rule.team}: unless the store has it, people are refused"
            yield ("sign_in", "rules", index, "team"), message
        is_last = index == len(settings.rules) - 1
        if not (is_last or rule.groups or rule.emails or rule.domains):
            yield ("sign_in", "rules", index), "matches everybody: later rules are never reached"


def _unverified_database(url: Secret | None) -> Iterator[Fault]:
    """A server of PostgreSQL on another machine whose name and certificate are not verified."""
    if url is None or isinstance(url, UnavailableSecret):
        return
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        found = conninfo_to_dict(url.reveal())
    except ProgrammingError:
        return  # Whoever connects says so.
    hosts = str(found.get("host") or found.get("hostaddr") or os.environ.get("PGHOST", "")).split(
        ","
    )
    remote = [one for one in hosts if one and one[0] not in "/@" and not is_loopback(one)]
    mode = found.get("sslmode") or os.environ.get("PGSSLMODE", "prefer")
    if remote and mode != "verify-full":
        message = (
            f"the server on {remote[0]} is not verified, so whoever is on the way can read and "
            "change what is stored: add sslmode=verify-full (and sslrootcert=FILE) to the URL"
        )
        yield ("storage", "url"), message


def high_rates(price: OwnPrice) -> list[str]:
    """The rates of a price that are hardly meant so."""
    rates: dict[str, str | None] = {rate: getattr(price, rate) for rate in _RATES}
    return [rate for rate, value in rates.items() if value and Decimal(value) > HIGH_PRICE]


def never_reached(routes: Sequence[Route]) -> dict[int, int]:
    """The places of routes after one that matches all their requests, each with the place of
    that."""
    found: dict[int, int] = {}
    exact: dict[tuple[str, Condition | None], int] = {}
    starred: list[int] = []
    for later, route in enumerate(routes):
        name, when = route.match, route.when
        covering = (
            one
            for one in starred
            if routes[one].when in (None, when) and covers(routes[one].match, name)
        )
        first = min(next(covering, later), *(exact.get((name, one), later) for one in (None, when)))
        if first != later:
            found[later] = first
        elif "*" in name:
            starred.append(later)
        else:
            exact[name, when] = later
    return found


def _has_long_limits(config: Config) -> bool:
    """Whether a key or a team has a limit whose window lasts for an hour or more."""
    limits = (limit for holder in (*config.clients, *config.teams) for limit in holder.limits)
    windows = (
        parse_window(limit.window, limit.zone, limit.anchor)
        for limit in limits
        if limit.window is not None
    )
    return any(not isinstance(one, Rolling) or one.seconds >= _HOUR_S for one in windows)


_HOUR_S = 3600
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_RATES = ("input", "output", "cached", "cache_write", "cache_write_1h", "reasoning")
HIGH_PRICE = 1000
"""US dollars for a million tokens above which a rate is probably a mistake."""
_SHORTEST_STORAGE_KEY = 16
_SHORTEST_ADMIN_KEY = 16
_COPIES = 3
"""Copies of a body in memory: compressed, decompressed, and as sent upstream."""

_PROXIES = ("http", "https", "socks5", "socks5h")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text == "unix"
    return True


def _duplicates(table: str, names: Iterable[str]) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        first = seen.setdefault(name, index)
        if first != index:
            yield (table, index, "name"), f"{name} is already the name of {table}[{first}]"


def _admin_key(config: Config) -> Iterator[Fault]:
    key = config.admin.key
    if key is None:
        return
    if _is_short(key, _SHORTEST_ADMIN_KEY):
        yield ("admin", "key"), f"too short to be safe: at least {_SHORTEST_ADMIN_KEY} characters"
    for index, client in enumerate(config.clients):
        if key in client.secrets:
            yield ("admin", "key"), f"clients[{index}] has the same key"


def _is_short(secret: Secret, least: int) -> bool:
    return not isinstance(secret, UnavailableSecret) and len(secret.reveal()) < least


def _client_keys(clients: Sequence[Client]) -> Iterator[Fault]:
    """Each client needs a key of its own that is hard to guess."""
    seen: dict[str, tuple[int, int]] = {}
    for index, client in enumerate(clients):
        if client.name == ANYONE:
            yield ("clients", index, "name"), "is the name of clients without a key"
        if not client.secrets:
            yield ("clients", index, "key"), "required, but not set"
        for number, secret in enumerate(client.keys if client.key is None else client.secrets):
            path: Path = ("clients", index, "key")
            if client.key is None or number:
                path = ("clients", index, "keys", number - (client.key is not None))
            if isinstance(secret, UnavailableSecret):
                continue
            key = secret.reveal()
            fault = key_fault(key)
            if fault is not None:
                yield path, fault
            first = seen.setdefault(key, (index, number))
            if first != (index, number):
                yield path, f"clients[{first[0]}] has the same key"


def _access(config: Config) -> Iterator[Fault]:
    known = [upstream.name for upstream in config.upstreams]
    for table, entries in (("clients", config.clients), ("teams", config.teams)):
        for index, entry in enumerate(entries):
            for path, message in access_faults(entry, known):
                yield (table, index, *path), message


def _unknown_upstreams(config: Config) -> Iterator[Fault]:
    known = [upstream.name for upstream in config.upstreams]
    references: list[tuple[str, str, Sequence[str | None]]] = [
        ("accounts", "upstream", [account.upstream for account in config.accounts]),
        ("routes", "upstream", [route.upstream for route in config.routes]),
        (
            "upstreams",
            "reasoning_with_tools_via",
            [upstream.reasoning_with_tools_via for upstream in config.upstreams],
        ),
    ]
    for table, key, names in references:
        for index, name in enumerate(names):
            if name is not None and name not in known:
                near = suggestion(name, known)
                yield (table, index, key), f"no upstream named {name}{near}"


def _fallbacks(route: Route, known: Sequence[str], index: int) -> Iterator[Fault]:
    """Each fallback needs an existing upstream, and a destination that was not tried before."""
    tried = {(route.upstream, route.model): "the route itself"}
    for number, fallback in enumerate(route.fallbacks):
        path = ("routes", index, "fallbacks", number)
        if fallback.upstream not in known:
            near = suggestion(fallback.upstream, known)
            yield (*path, "upstream"), f"no upstream named {fallback.upstream}{near}"
        destination = fallback.upstream, fallback.model or route.model
        before = tried.setdefault(destination, f"fallbacks[{number}]")
        if before != f"fallbacks[{number}]":
            yield path, f"leads where {before} leads: to {fallback.upstream} with the same model"


def _file_names(config: Config) -> Iterator[Fault]:
    server = config.server
    named: dict[Path, str | None] = {
        ("server", "unix_socket"): server.unix_socket,
        ("server", "spool_dir"): server.spool_dir,
        ("server", "tls_certificate"): server.tls_certificate,
        ("server", "tls_key"): server.tls_key,
        ("storage", "path"): config.storage.path,
    }
    for path, name in named.items():
        if name is not None:
            try:
                file_at(name, Directory())
            except BadFileName as error:
                yield path, str(error)


def _storage(storage: Storage) -> Iterator[Fault]:
    for name, key in (("key", storage.key), ("previous_key", storage.previous_key)):
        if key is not None and _is_short(key, _SHORTEST_STORAGE_KEY):
            yield (
                ("storage", name),
                f"shorter than {_SHORTEST_STORAGE_KEY} characters: it could be found by trial "
                "by anyone who has the file",
            )
    if storage.url is not None and not isinstance(storage.url, UnavailableSecret):
        if not storage.url.reveal().startswith(POSTGRESQL):
            yield ("storage", "url"), f"expected a URL that begins with {POSTGRESQL[0]}"
        elif not _can_import("psycopg"):
            yield ("storage", "url"), missing_extra("postgres")
        elif not _is_database(storage.url.reveal()):
            yield ("storage", "url"), "cannot be read as the URL of a database"
    if storage.previous_key is not None and storage.key is None:
        yield ("storage", "previous_key"), "has no effect without key"


def _is_database(url: str) -> bool:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        return False
    return True


def _traces(config: Config) -> Iterator[Fault]:
    if config.traces.enabled and not all(map(_can_import, _TRACING)):
        yield ("traces", "enabled"), missing_extra("otel")


POSTGRESQL = ("postgresql://", "postgres://")
_TRACING = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def _can_import(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _prices(config: Config) -> Iterator[Fault]:
    """Each own price needs a default price of its model and an existing upstream; a long-prompt
    price needs one for short prompts. No price may be repeated."""
    known = [upstream.name for upstream in config.upstreams]
    short = {
        (price.model, price.upstream, price.tier, price.since, price.hours)
        for price in config.prices
        if not price.above
    }
    seen: dict[object, int] = {}
    for index, price in enumerate(config.prices):
        whose = price.model, price.upstream
        if price.upstream is not None and price.upstream not in known:
            near = suggestion(price.upstream, known)
            yield ("prices", index, "upstream"), f"no upstream named {price.upstream}{near}"
        when = price.tier, price.since, price.hours
        if (*whose, None, None, None) not in short:
            missing = f"the usual price of {price.model}, with nothing but rates, is missing"
            yield ("prices", index, "model"), missing
        elif (*whose, *when) not in short:
            yield ("prices", index, "above"), "the same price without above is missing"
        if price.hours is not None and len(set(price.hours.split("-"))) == 1:
            yield ("prices", index, "hours"), "they end when they begin"
        first = seen.setdefault((whose, price.above, when), index)
        if first != index:
            yield ("prices", index, "model"), f"prices[{first}] is the same price"


def _secret_url(url: Secret, path: Path, schemes: tuple[str, ...]) -> Iterator[Fault]:
    if not isinstance(url, UnavailableSecret):
        yield from _url(url.reveal(), path, schemes)


def _url(url: str, path: Path, schemes: tuple[str, ...]) -> Iterator[Fault]:
    # The URL itself is not quoted: a proxy's may contain a password.
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        yield path, "not a URL"
        return
    if parts.scheme not in schemes or not host:
        yield path, f"expected a URL with a host and one of the schemes {', '.join(schemes)}"
    elif path[-1] == "base_url" and parts.username is not None:
        yield path, "a key does not belong in the URL: put it in [[accounts]]"
    elif parts.fragment:
        yield path, "a URL without # is needed: paths are added to it"
    elif any(character.isspace() for character in url):
        yield path, "a URL has no blanks"
    elif path[-1] == "base_url" and (end := _endpoint_at_end(parts.path)):
        yield path, f"expected it without {end}, which is added to it"


def _endpoint_at_end(path: str) -> str:
    """The path of an endpoint with which the path of a URL ends, empty if it does not."""
    ends = (codec.endpoint.path for codec in CODECS.values())
    return next((end for end in ends if path.rstrip("/").endswith(end)), "")


def _is_quoted(secret: Secret | None) -> bool:
    """Whether a key has quotes around it, as shells take them off, and files do not."""
    if secret is None or isinstance(secret, UnavailableSecret):
        return False
    text = secret.reveal()
    return len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"


def _is_variable(secret: Secret | None) -> bool:
    """Whether a key is rather the name of a variable of the environment."""
    if secret is None or isinstance(secret, UnavailableSecret):
        return False
    return _VARIABLE.fullmatch(secret.reveal()) is not None
