"""``python -m bench.dashboard``: how soon each screen of the dashboard paints over 10,000 accounts,
and what it costs that one stays open.

``paint`` loads each screen several times in Chromium and tells the first paint and when nothing is
waited for any more, and how long the administration takes for what the screens ask for. ``open``
leaves a screen open under traffic, with all that it polls sped up, and tells the heap and the nodes
of the page and the memory of the gateway as they go: none may grow.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench import tail, targets
from bench.load_client import close, connect, repeat
from bench.measure import MARK, cell_of
from bench.processes import Child
from bench.targets import Cores

ACCOUNTS = 10_000
SCREENS = ("", "accounts", "requests", "losses", "keys", "routes", "workbench", "clients", "config")
NONE = "none"
"""In place of a screen: none is open, and what the gateway grows by is due to its requests."""

ASKED = ("session", "health", "accounts/table", "series", "requests?limit=100", "keys", "config")

_SETTLED_MS = 5000
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FASTER = "const slow = setInterval; window.setInterval = (each, ms) => slow(each, ms / %d);"
_RESTS = """() => performance.getEntriesByName('first-contentful-paint').length
  && document.querySelector('main h1') && !document.querySelector('[aria-busy=true]')
  && !document.body.innerText.includes('Loading…') && performance.now()"""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


@contextmanager
def gateway() -> Iterator[tuple[Child, int]]:
    """A gateway with many accounts, and its port."""
    cores = Cores.of_this_machine()
    many = "".join(
        f'[[accounts]]\nname = "pool-{number:05}"\nupstream = "chat"\nkey = "bench-{number}"\n'
        for number in range(ACCOUNTS)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            targets.upstreams(folder, cores) as up,
            tail.gateway(folder, up, cores, many) as (child, port),
        ):
            yield child, port


@contextmanager
def page(port: int, faster: int = 1) -> Iterator[Page]:
    """A page of somebody who is signed in, its timers that many times as fast."""
    with sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, _BROWSERS)), None)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        if faster > 1:
            page.add_init_script(_FASTER % faster)
        page.goto(f"http://127.0.0.1:{port}/ui/config")
        page.get_by_label("Key of the administration").fill(tail.ADMIN_KEY)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Sign out").first.wait_for()
        yield page
        browser.close()


async def use_all(port: int) -> None:
    """Have each account of the pool asked: the first use of one takes memory once."""
    links = await connect(port, 8, MARK)
    try:
        await repeat(links, cell_of("messages:chat").request(stream=False), ACCOUNTS + 1000)
    finally:
        close(links)


@contextmanager
def traffic(port: int) -> Iterator[None]:
    """Some requests a second, until the block is left."""
    stopped = threading.Event()

    async def send() -> None:
        links = await connect(port, 4, MARK)
        request = cell_of("messages:chat").request(stream=False)
        try:
            while not stopped.is_set():
                await repeat(links, request, 16)
                await asyncio.sleep(0.25)
        finally:
            close(links)

    thread = threading.Thread(target=asyncio.run, args=(send(),))
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def answer(port: int, path: str) -> tuple[float, int]:
    """The seconds that the administration takes for an answer, and its bytes as they are sent."""
    connection = HTTPConnection("127.0.0.1", port)
    headers = {"authorization": f"Bearer {tail.ADMIN_KEY}", "accept-encoding": "gzip"}
    started = time.perf_counter()
    connection.request("GET", f"/admin/{path}", headers=headers)
    response = connection.getresponse()
    size = len(response.read())
    took = time.perf_counter() - started
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"/admin/{path} was answered with {response.status}")
    return took, size


def paint(loads: int) -> None:
    """Tell how soon screens paint."""
    with gateway() as (_, port):
        for path in ASKED:
            found = [answer(port, path) for _ in range(loads)]
            took = statistics.median(seconds for seconds, _ in found)
            _say(f"/admin/{path}: {took * 1e3:.1f} ms, {found[-1][1]:,} bytes")
        with page(port) as shown:
            for screen in SCREENS:
                first, rest = [], []
                for _ in range(loads):
                    shown.goto(f"http://127.0.0.1:{port}/ui/{screen}")
                    rest.append(shown.wait_for_function(_RESTS, polling=5).json_value())
                    first.append(shown.evaluate(_PAINTED))
                _say(
                    f"/ui/{screen}: first paint {statistics.median(first):.0f} ms"
                    f" (worst {max(first):.0f}), at rest {statistics.median(rest):.0f} ms"
                )


def left_open(screen: str, seconds: float, faster: int) -> None:
    """Tell what a screen costs that stays open, and once nothing happens any more."""
    with ExitStack() as stack:
        child, port = stack.enter_context(gateway())
        asyncio.run(use_all(port))
        shown = stack.enter_context(page(port, faster))
        devtools = shown.context.new_cdp_session(shown)
        devtools.send("HeapProfiler.enable")

        def tell(when: str) -> None:
            devtools.send("HeapProfiler.collectGarbage")
            heap = devtools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
            nodes = devtools.send("Memory.getDOMCounters")
            elements = shown.evaluate("document.querySelectorAll('*').length")
            _say(
                f"{when}: heap {heap:.2f} MB, {nodes['nodes']} nodes,"
                f" {elements} elements in the page,"
                f" {nodes['jsEventListeners']} listeners; gateway {_memory_mb(child.pid):.1f} MB"
            )

        with traffic(port):
            shown.goto(f"http://127.0.0.1:{port}/ui/{screen}" if screen != NONE else "about:blank")
            for part in range(11):
                tell(f"{part * seconds / 10:5.0f} s")
                if part < 10:
                    shown.wait_for_timeout(seconds * 100)
        shown.wait_for_timeout(_SETTLED_MS)
        tell("at rest")


def _memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the gateway has ended")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        prog="bench.dashboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, dest="command")
    painting = commands.add_parser("paint")
    painting.add_argument("--loads", type=int, default=7)
    opening = commands.add_parser("open")
    opening.add_argument("--screen", choices=(*SCREENS, NONE), default="")
    opening.add_argument("--seconds", type=float, default=100.0)
    opening.add_argument("--faster", type=int, default=6, help="how much sooner it polls")
    chosen = parser.parse_args()
    if chosen.command == "paint":
        paint(chosen.loads)
    else:
        left_open(chosen.screen, chosen.seconds, chosen.faster)


if __name__ == "__main__":
    main()
