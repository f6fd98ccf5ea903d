"""The settings of MCP servers."""

from __future__ import annotations

from msgspec import Struct, field

from dragoman.config.access_rules import HeaderName, Name, NonEmpty
from dragoman.config.credentials import CommandCredentials, OAuthCredentials
from dragoman.config.secret import Secret

PATH = "/mcp/"
"""The beginning of the path of each server."""


class McpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server of the Model Context Protocol, which agents reach at `/mcp/NAME` with the keys of
    the gateway (see [MCP](mcp.md)). It must speak streamable HTTP: commands that speak it over
    standard input and output (stdio) cannot be used."""

    name: Name
    """Name of the server, in its path, and as `mcp:NAME` in usage, limits, logs and metrics."""
    url: NonEmpty
    """Address of its endpoint, such as `https://tickets.example.com/mcp`."""
    key: Secret | None = None
    """Key that it is sent as `Authorization: Bearer`."""
    credentials: OAuthCredentials | CommandCredentials | None = None
    """Tokens that expire, in place of a key: of `kind = "oauth2"`, or `"command"`."""
    headers: dict[HeaderName, Secret] = field(default_factory=dict)
    """Further headers that it is sent, such as a key in a header of its own. Values may be
    references."""
    tools: tuple[NonEmpty, ...] | None = None
    """Tools that may be listed and called, `*` allowed in each; absent: all. Whoever may use none
    may not use the server at all."""
    teams: dict[Name, tuple[NonEmpty, ...]] = field(default_factory=dict)
    """The same for the keys and people of a team, by its name, in place of `tools`:
    `teams = { support = ["*"], interns = ["search_*"] }`."""

    @property
    def account(self) -> str:
        """What it is called in usage, limits, logs and metrics; no account can be called so."""
        return f"mcp:{self.name}"

    def tools_of(self, team: str) -> tuple[str, ...]:
        """Patterns of the tools that members of a team may use; empty for no team."""
        every = ("*",) if self.tools is None else self.tools
        return self.teams.get(team, every)
