"""``python -m tools.differential``: compare two versions, and print the differences."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby, repeat
from pathlib import Path

import msgspec

from tools.differential import corpus, damage, library
from tools.differential.compare import Report, expected_in
from tools.differential.gateways import Gateway, running
from tools.differential.requests import Selection
from tools.differential.versions import Version

ROOT = Path(__file__).parent.parent.parent
GROUPS = ("face", "translations", "clients", "damaged", "faults", "stored", "limits", "admin")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(prog="tools.differential", description=__doc__)
    parser.add_argument("--old", type=Path, required=True, metavar="DIR_OR_WHEEL")
    parser.add_argument("--new", type=Path, default=ROOT, metavar="DIR_OR_WHEEL")
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="FILE",
        help="recorded translations; made from the old checkout's tests if there is no such file",
    )
    parser.add_argument("--streams", type=int, default=5000, help="damaged streams, in processes")
    parser.add_argument(
        "--requests",
        type=int,
        default=1500,
        help="translations and damaged streams that are sent over HTTP, of each",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=400, help="characters of each example")
    parser.add_argument("--workers", type=int, default=1, help="processes of each gateway")
    parser.add_argument("--groups", nargs="*", default=GROUPS, choices=GROUPS)
    parser.add_argument(
        "--expected",
        type=Path,
        default=Path(__file__).parent / "expected.toml",
        help="the differences that are intended, each with its reason",
    )
    return parser.parse_args(arguments)


def main() -> int:
    """Compare; the status is 1 if there is a difference that is not expected."""
    chosen = parsed()
    report = Report(expected_in(chosen.expected))
    with tempfile.TemporaryDirectory(prefix="differential-") as name:
        folder = Path(name)
        versions = Version.at("old", chosen.old, folder), Version.at("new", chosen.new, folder)
        recorded = chosen.corpus or folder / "corpus.jsonl"
        if not recorded.exists():
            corpus.record(versions[0].root, recorded)
        translations = corpus.read(recorded)
        streams = corpus.streams_of(translations)
        damaged = damage.damaged_translations(streams, chosen.streams, chosen.seed)
        library.compare(versions, "library", translations, report)
        library.compare(versions, "library damaged", damaged, report)
        selection = selected(chosen, translations, streams)
        compare_gateways(versions, folder, selection, report)
    sys.stdout.write(report.text(chosen.length))
    return int(bool(report.unexpected))


def selected(
    chosen: argparse.Namespace,
    translations: list[corpus.Translation],
    streams: dict[str, list[bytes]],
) -> Selection:
    """The requests of the groups that were chosen."""
    selection = Selection(chosen.workers)
    add = {
        "face": selection.add_face,
        "translations": lambda: selection.add_translations(translations, chosen.requests),
        "clients": lambda: selection.add_recorded(translations),
        "damaged": lambda: selection.add_damaged(streams, chosen.requests, chosen.seed),
        "faults": selection.add_faults,
        "stored": selection.add_stored,
        "limits": selection.add_limited,
        "admin": selection.add_admin,
    }
    for group in chosen.groups:
        add[group]()
    return selection


def compare_gateways(
    versions: tuple[Version, Version], folder: Path, selection: Selection, report: Report
) -> None:
    """Send the requests to a gateway of each version, group by group, and compare."""
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        gateways = [
            stack.enter_context(
                running(version, folder / f"{version.name}-gateway", selection.configuration())
            )
            for version in versions
        ]
        for group, exchanges in groupby(selection.exchanges, key=lambda one: one.group):
            for exchange in exchanges:
                old, new = pool.map(Gateway.exchange, gateways, repeat(exchange))
                report.count += 1
                report.compare(group, exchange.cell, old, new, msgspec.json.encode(exchange))
            old, new = pool.map(Gateway.state, gateways)
            report.compare(f"{group} state", "", old, new, b"")


if __name__ == "__main__":
    sys.exit(main())
