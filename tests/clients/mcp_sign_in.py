"""A client of an MCP server that signs in, made with the official SDK: prints the page that a
person is to open, reads the address to which that led, and prints the names of the tools. It runs
in the agents' virtual environment.
"""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import ClientSession  # type: ignore[import-not-found]  # not of this environment
from mcp.client.auth import OAuthClientProvider  # type: ignore[import-not-found]
from mcp.client.streamable_http import streamable_http_client  # type: ignore[import-not-found]
from mcp.shared.auth import (  # type: ignore[import-not-found]
    AuthorizationCodeResult,
    OAuthClientMetadata,
)


class Storage:
    """What it keeps."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def _opened(url: str) -> None:
    _say(url)


async def _returned() -> Any:
    query = parse_qs(urlsplit(await asyncio.to_thread(sys.stdin.readline)).query)
    return AuthorizationCodeResult(code=query["code"][0].strip(), state=query["state"][0].strip())


async def _main(url: str, redirect: str) -> None:
    about = OAuthClientMetadata(client_name="A test", redirect_uris=[redirect])
    auth = OAuthClientProvider(url, about, Storage(), _opened, _returned)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        listed = await session.list_tools()
    _say(json.dumps({"tools": [tool.name for tool in listed.tools]}))


asyncio.run(_main(*sys.argv[1:]))
