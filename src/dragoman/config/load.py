"""Reading a configuration file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.options import Capabilities, Options
from dragoman.config import checks
from dragoman.config.convert import Converter, Lookup, dotted
from dragoman.config.credentials import FILES
from dragoman.config.errors import ConfigError, Problem
from dragoman.config.files import file_at, read_file
from dragoman.config.mcp import McpServer
from dragoman.config.names import ALIASES, LEGACY, PREFIXES
from dragoman.config.secret import resolve_later, resolve_secret
from dragoman.config.settings import Account, Config, Models, Route
from dragoman.config.toml_lines import Path as KeyPath
from dragoman.config.toml_lines import TomlLines
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.settings import setting, with_settings

_PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_MOST_BYTES = 16 * 1024 * 1024
_STORE = "dragoman.db"
"""The store of a configuration file that names none."""

_Holder = TypeVar("_Holder", Account, McpServer)


class Loaded(Struct, frozen=True):
    """A usable configuration, warnings about it, and its text."""

    config: Config
    warnings: tuple[Problem, ...]
    text: str

    def problems(self, faults: Iterable[tuple[KeyPath, str]]) -> tuple[Problem, ...]:
        """Faults found later, with their lines in the text."""
        return _problems(TomlLines(self.text), faults)


def read_config(
    path: str | os.PathLike[str],
    *,
    environ: Mapping[str, str] = os.environ,
    server: Mapping[str, object] = MappingProxyType({}),
    secrets_needed: bool = True,
) -> Loaded:
    """Read the configuration file at `path`, with `env:` references from `environ`. `server` has
    settings that take precedence over its `[server]`.

    Without `secrets_needed`, a secret that cannot be resolved here is an error only when it is
    used: an operator's shell seldom has the environment of the service.

    Raises:
        ConfigError: the file cannot be read or used; it has the line and key of every fault.
    """
    text, directory = read_text(path), Path(path).parent
    resolve = resolve_secret if secrets_needed else resolve_later
    loaded = parse_config(
        text,
        file=os.fspath(path),
        directory=directory,
        server=server,
        lookup=Lookup(
            partial(resolve, environ=environ, directory=directory),
            partial(read_file, directory=directory),
        ),
    )
    return with_files(_with_proxies_noted(loaded, environ), directory)


def _with_proxies_noted(loaded: Loaded, environ: Mapping[str, str]) -> Loaded:
    """The configuration with a warning if the environment names a proxy that it does not."""
    named = [name for name in _PROXY_VARIABLES if environ.get(name)]
    upstreams = loaded.config.upstreams
    if not named or not upstreams or any(one.proxy or one.proxies for one in upstreams):
        return loaded
    message = f'is not obeyed: set proxy = "env:{named[0]}" where an upstream is behind it'
    return replace(loaded, warnings=(*loaded.warnings, Problem(1, named[0], message)))


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a configuration file.

    Raises:
        ConfigError: the file cannot be read.
    """
    file = os.fspath(path)
    try:
        with open(path, "rb") as opened:
            # It may be a pipe. Editors on Windows write a byte order mark.
            return opened.read(_MOST_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        problem = Problem(1, "", f"cannot read the file: {error.strerror}")
        raise ConfigError(file, (problem,)) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, (Problem(line, "", f"not UTF-8: {error.reason}"),)) from None


def with_files(loaded: Loaded, directory: Path) -> Loaded:
    """The configuration read from `directory`, with the paths of its files resolved, and the path
    of its store filled in."""
    storage = loaded.config.storage
    warnings = loaded.warnings
    if storage.url is not None and storage.path is None and (directory / _STORE).exists():
        message = f"the store is this database, and the existing {_STORE} is not used: "
        message += f'dragoman store migrate copies it, path = "{_STORE}" selects it'
        warnings = (*warnings, Problem(1, "storage.url", message))
    config = _with_storage(_with_files(loaded.config, directory), directory)
    return replace(loaded, config=config, warnings=warnings)


def _with_files(config: Config, directory: Path) -> Config:
    """The configuration with the paths of the server's and the accounts' files resolved."""
    server = config.server
    named = {
        "unix_socket": server.unix_socket,
        "spool_dir": server.spool_dir,
        "tls_certificate": server.tls_certificate,
        "tls_key": server.tls_key,
    }
    found = {
        name: os.fspath(file_at(path, directory))
        for name, path in named.items()
        if path is not None
    }
    return replace(
        config,
        server=replace(server, **found),
        accounts=tuple(_with_credential_files(one, directory) for one in config.accounts),
        mcp_servers=tuple(_with_credential_files(one, directory) for one in config.mcp_servers),
    )


def _with_credential_files(holder: _Holder, directory: Path) -> _Holder:
    settings = holder.credentials
    if settings is None:
        return holder
    named = {name: getattr(settings, name, None) for name in FILES}
    found = {
        name: os.fspath(file_at(path, directory))
        for name, path in named.items()
        if path is not None
    }
    return replace(holder, credentials=replace(settings, **found)) if found else holder


def _with_storage(config: Config, directory: Path) -> Config:
    """The configuration with the path of its store filled in."""
    path = config.storage.path
    if path == "":
        return config
    if path is None and config.storage.url is not None:
        return replace(config, storage=replace(config.storage, path=""))
    found = file_at(_STORE if path is None else path, directory)
    return replace(config, storage=replace(config.storage, path=os.fspath(found)))


def parse_config(
    text: str,
    *,
    file: str = "<string>",
    environ: Mapping[str, str] = os.environ,
    directory: Path = Path(),
    server: Mapping[str, object] = MappingProxyType({}),
    lookup: Lookup | None = None,
) -> Loaded:
    """Check and resolve the text of a configuration.

    `file` is only used in messages; `file:` references and file names are relative to `directory`;
    `server` is as in `read_config`; `lookup` replaces the resolution of references and the reading
    of files. `storage.path` is not filled in, since a text has no directory.

    Raises:
        ConfigError: as `read_config`.
    """
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(file, (_syntax_problem(str(error), text),)) from None
    except RecursionError:
        raise ConfigError(file, (Problem(1, "", "not TOML: nested too deeply"),)) from None
    lines = TomlLines(text)
    if server and isinstance(own := document.setdefault("server", {}), dict):
        own.update(server)

    if lookup is None:
        resolve = partial(resolve_secret, environ=environ, directory=directory)
        lookup = Lookup(resolve, partial(read_file, directory=directory))
    converter = Converter(lookup)
    converted = converter.convert(document, Config, ())
    _fail_on(file, lines, converter.faults)
    _fail_on(file, lines, _policies_set_twice(document))
    config = _completed(converted, document)
    _fail_on(file, lines, checks.errors(config))
    return Loaded(config, _problems(lines, checks.warnings(config)), text)


def _policies_set_twice(document: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    for index, route in enumerate(document.get("routes", ())):
        if "policy" in route and "policy" in route.get("options", {}):
            yield ("routes", index, "policy"), "also set as options.policy: set one of them"


def _completed(config: Config, document: dict[str, Any]) -> Config:
    """The configuration with values that one table takes from another.

    A route takes options that neither it nor its dialect sets from the top-level `[options]`, and
    missing capabilities from its upstream; names in `[models]` are added to the built-in ones.
    `document` shows what was set. With a search engine, it is what searches.
    """
    options = config.options
    if config.search.engine and "hosted_tools" not in options.given:
        options = with_settings(options, {"hosted_tools": "search"})
    upstreams = {upstream.name: upstream.capabilities for upstream in config.upstreams}
    return replace(
        config,
        routes=tuple(
            _with_capabilities(_with_options(route, options), upstreams) for route in config.routes
        ),
        options=options,
        models=_with_builtin(config.models, document.get("models", {})),
    )


def _with_options(route: Route, shared: Options) -> Route:
    own = dict(DIALECTS[route.dialect])
    own |= {name: setting(route.options, name) for name in route.options.given}
    if route.policy is not None:
        own["policy"] = route.policy
    return replace(route, options=with_settings(shared, own))


def _with_capabilities(route: Route, upstreams: Mapping[str, Capabilities]) -> Route:
    # An upstream that does not exist is reported later, with the line that names it.
    shared = upstreams.get(route.upstream)
    if route.capabilities is None or shared is None:
        return route
    own = {name: setting(route.capabilities, name) for name in route.capabilities.given}
    return replace(route, capabilities=with_settings(shared, own))


def _with_builtin(models: Models, raw: dict[str, Any]) -> Models:
    def merged(key: str, shipped: dict[str, str]) -> dict[str, str]:
        own: dict[str, str] = getattr(models, key) if key in raw else {}
        return {**own, **{name: to for name, to in shipped.items() if name not in own}}

    if not models.builtin:
        return replace(models, **{key: {} for key in _BUILTIN if key not in raw})
    return replace(models, **{key: merged(key, shipped) for key, shipped in _BUILTIN.items()})


_BUILTIN = {"aliases": ALIASES, "legacy": LEGACY, "prefixes": PREFIXES}


def _fail_on(file: str, lines: TomlLines, faults: Iterable[tuple[KeyPath, str]]) -> None:
    if problems := _problems(lines, faults):
        raise ConfigError(file, problems)


def _problems(lines: TomlLines, faults: Iterable[tuple[KeyPath, str]]) -> tuple[Problem, ...]:
    found = {Problem(lines.line(path), dotted(path), message) for path, message in faults}
    return tuple(sorted(found, key=lambda problem: (problem.line, problem.key)))


def _syntax_problem(message: str, text: str) -> Problem:
    """A problem from the parser's message, which ends in `(at line 3, column 5)` or similar."""
    reason, _, where = message.rpartition(" (at ")
    if position := re.fullmatch(r"line (\d+), column \d+\)", where):
        return Problem(int(position.group(1)), "", f"not TOML: {reason}")
    line = text.count("\n") + 1 if reason else 1
    return Problem(line, "", f"not TOML: {reason or message}")
