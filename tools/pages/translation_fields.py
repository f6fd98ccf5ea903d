"""Writes `docs/translation-fields.md`: every field of every request, and what becomes of it.

Nothing on that page is written by hand: each line is what the translation itself said of a request
that holds the field, under each policy.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.canonical.losses import Ledger, Loss, LossKind, Policy
from dragoman.protocols.settings import make_options
from dragoman.translation import Call
from tests.library import translate_request
from tests.losses.excused import REQUESTS, excuse
from tests.losses.requests import CHAT, MESSAGES, PROTOCOLS, RESPONSES, Case, cases
from tests.losses.verdict import Verdict, judge
from tests.losses.walker import path_text

PAGE = Path(__file__).parents[2] / "docs" / "translation-fields.md"

TITLES = {CHAT: "Chat Completions", MESSAGES: "Messages", RESPONSES: "Responses"}
_ORDER = tuple(LossKind)
_PLACE = re.compile(r"^[\w.\[\]-]+: ")

HEAD = """# What becomes of every field

Written by `python -m tools.pages.translation_fields`, from what the translation says of one request
for each field and each choice in the vendors' SDKs' own types; a test keeps this page up to date.
[translation.md](translation.md) says the same topic by topic.

| what happens | strict | balanced | lenient |
|---|---|---|---|
{policies}
A field is *carried* when nothing of it is lost, and *left out* when it says nothing upstream.
Where it depends on the value, or on where it stands, all
that can happen is listed; what is refused under every policy is malformed or unknown. Fields are
named by the SDK type that declares them (`Beta...` are Anthropic's beta types); those of one type
that fare alike share a line.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD.format(policies=_policies())]
    for client in PROTOCOLS:
        for upstream in PROTOCOLS:
            if upstream != client:
                parts.append(f"\n## {TITLES[client]} to {TITLES[upstream]}\n")
                parts += _table(client, upstream)
    return "\n".join(parts) + "\n"


def _policies() -> str:
    """What each policy makes of each kind of loss, as the ledger decides it."""
    lines = ["| carried | | | |"]
    for kind in _ORDER:
        cells = ["400" if _refuses(kind, policy) else "reported" for policy in Policy]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _refuses(kind: LossKind, policy: Policy) -> bool:
    ledger = Ledger()
    ledger.add("field", kind, "lost")
    try:
        ledger.enforce(policy)
    except Refused:
        return True
    return False


def _table(client: str, upstream: str) -> Iterable[str]:
    fared: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for case in cases():
        if case.client == client:
            told = fared[_named(case)]
            for line in _outcome(case, upstream):
                told[line] = None
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (owner, name), told in fared.items():
        alike[owner, tuple(sorted(told, key=_rank))].append(name)
    yield "| type | fields | what happens |"
    yield "|---|---|---|"
    for (owner, happens), names in alike.items():
        shown = ", ".join(f"`{name}`" for name in names if name) or "itself"
        yield f"| {owner} | {shown} | {'; '.join(happens)} |"


def _named(case: Case) -> tuple[str, str]:
    """The type that declares a case's field, and the field; no field for a type as a whole."""
    owner, _, name = case.probe.label.partition("=")[0].partition(".")
    return owner.removesuffix("Param"), name


def _outcome(case: Case, upstream: str) -> set[str]:
    body = msgspec.json.encode(case.body(case.probe.value))
    try:
        call = _translated(case.client, upstream, body)
    except InvalidRequest as error:
        problem = _PLACE.sub("", error.fault.message)
        return {f"refused: {_cell(problem)}"}
    told = {_told(loss) for loss in call.losses if _concerns(loss, case)}
    if told:
        return told
    reason = excuse(case.probe.label, REQUESTS)
    if reason is not None and judge(case, upstream) is Verdict.SILENT:
        return {f"left out: {_cell(REQUESTS[reason])}"}
    return {"carried"}


def _concerns(loss: Loss, case: Case) -> bool:
    """Whether a loss says something of the case's field: it is of the field or of something in it,
    or something that the field stands in was left out."""
    path = path_text(case.path)
    if loss.path == path or loss.path.startswith((f"{path}.", f"{path}[")):
        return True
    within = path.startswith((f"{loss.path}.", f"{loss.path}["))
    return within and loss.kind in (LossKind.KNOB, LossKind.CONTENT)


def _translated(client: str, upstream: str, body: bytes) -> Call:
    return translate_request(client, upstream, body, options=make_options(policy=Policy.LENIENT))


def _told(loss: Loss) -> str:
    return f"{loss.kind}: {_cell(loss.detail)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").rstrip(".")


def _rank(told: str) -> tuple[int, str]:
    kinds = ["carried", "left out", *_ORDER, "refused"]
    return kinds.index(told.partition(":")[0]), told


if __name__ == "__main__":
    PAGE.write_text(page())
