"""What sources of credentials need of the environment: HTTP, files, variables and commands."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from dragoman.accounts.credentials.decide.answers import refusal
from dragoman.accounts.credentials.decide.refreshing import (
    CredentialError,
    CredentialFailure,
    check_inputs,
)
from dragoman.canonical.masking import Mask
from dragoman.config.files import read_bytes

_log = logging.getLogger("dragoman.accounts")

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_MOST_OUTPUT = 64 * 1024
_PASSED_ON = (
    "PATH",
    "HOME",
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("https_proxy", "http_proxy", "no_proxy"),
)


class Ask(Struct, frozen=True):
    """A request for a credential. `total_s` is its time limit; `is_direct`: it goes through no
    proxy, as to an address of the machine's own network."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    total_s: float = 10.0
    is_direct: bool = False

    def __repr__(self) -> str:
        return f"Ask({self.method})"


class Answer(Struct, frozen=True):
    """The answer to an `Ask`; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unanswered(Exception):
    """There is no answer. `was_sent`: the request may have been received."""

    def __init__(self, why: str, *, was_sent: bool) -> None:
        super().__init__(why)
        self.was_sent = was_sent


Fetch = Callable[[Ask], Awaitable[Answer]]
"""Sends an `Ask`; raises `Unanswered`."""


class Environment:
    """What a source may use. `environ` are the variables of this process."""

    def __init__(
        self, fetch: Fetch, clock: Callable[[], float], environ: Mapping[str, str] = os.environ
    ) -> None:
        self._fetch = fetch
        self.clock = clock
        self.environ = environ

    async def fetch(self, ask: Ask, who: str, absent: str = "") -> Answer:
        """Ask `who` for something. `absent` is the reason if there is no answer; empty: just that.

        Raises:
            CredentialError: there is no answer.
        """
        try:
            return await self._fetch(ask)
        except Unanswered as error:
            why = absent or f"{who} does not answer ({error})"
            raise CredentialError("unavailable", why) from None

    async def body_of(self, ask: Ask, who: str, absent: str = "", hint: str = "") -> bytes:
        """As `fetch`: the body of an answer with status 200. `hint` ends the reason if it has
        another.

        Raises:
            CredentialError: there is none.
        """
        answer = await self.fetch(ask, who, absent)
        if answer.status != 200:
            why = f"{who} failed with status {answer.status}{hint}"
            raise CredentialError("unavailable", why)
        return answer.body

    async def granted(
        self,
        ask: Ask,
        who: str,
        lasting: Mapping[str, str],
        inputs: str = "",
        failure: CredentialFailure | None = None,
    ) -> Answer:
        """The answer of an issuer, `who`, that has granted what it was asked for. It is not asked
        again with the `inputs` that it refused for good; `lasting` is as for `refusal`.

        Raises:
            CredentialError: it has not.
        """
        check_inputs(inputs, failure)
        answer = await self.fetch(ask, who)
        if answer.status not in (200, 201):
            raise refusal(answer.status, answer.body, who, lasting, inputs)
        return answer

    async def ask(self, ask: Ask) -> Answer:
        """As `fetch`.

        Raises:
            Unanswered: there is no answer.
        """
        return await self._fetch(ask)

    async def read(self, path: str, what: str) -> bytes:
        """The content of a file.

        Raises:
            CredentialError: it cannot be read.
        """
        try:
            return await asyncio.to_thread(_read, path)
        except OSError as error:
            why = f"{what} cannot be read ({error.strerror or error})"
            raise CredentialError("unavailable", why) from None

    async def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return await asyncio.to_thread(_is_file, path)

    async def run(
        self, command: Sequence[str], variables: Mapping[str, str], timeout_s: float
    ) -> bytes:
        """The output of a command, which is not run by a shell. It has a process group of its own,
        which is killed when it takes too long or says too much.

        Raises:
            CredentialError: it failed.
        """
        environ = {name: self.environ[name] for name in _PASSED_ON if name in self.environ}
        environ |= variables
        try:
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(_MOST_OUTPUT, loop),
                *command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(f"cannot be started ({error.strerror})") from None
        process = Process(transport, protocol, loop)
        try:
            async with asyncio.timeout(timeout_s):
                output, errors = await asyncio.gather(_most(process.stdout), _most(process.stderr))
                status = await process.wait()
        except TimeoutError:
            raise _failed(f"took more than {timeout_s:g} s") from None
        finally:
            _kill(process)
            await process.wait()
            # What has left the group may have its end of the pipes for as long as it runs.
            transport.close()
        if status:
            # Clients receive the reason, and what it printed may be anything.
            for line in errors.decode("utf-8", "replace").strip().splitlines()[-1:]:
                _log.warning("a command of credentials failed: %s", _masked(line, environ))
            raise _failed(f"failed with status {status}")
        return output


def _read(path: str) -> bytes:
    return read_bytes(os.path.expanduser(path))


def _is_file(path: str) -> bool:
    return os.path.isfile(os.path.expanduser(path))


async def _most(stream: asyncio.StreamReader | None) -> bytes:
    """The output of a process.

    Raises:
        CredentialError: it is too much.
    """
    assert stream is not None
    read = bytearray()
    while data := await stream.read(_MOST_OUTPUT):
        read += data
        if len(read) > _MOST_OUTPUT:
            raise _failed(f"printed more than {_MOST_OUTPUT} bytes")
    return bytes(read)


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failed(how: str) -> CredentialError:
    return CredentialError("unavailable", f"its command {how}")


def _masked(line: str, variables: Mapping[str, str]) -> str:
    """A line of what a command says, without the values of what looks like a secret."""
    secrets = [value for name, value in variables.items() if name not in _PASSED_ON]
    return Mask(secrets).error(line[:200].encode()).decode("utf-8", "replace")
