"""What the upstreams of Google's protocol accept, by their host and the generation of the model.

Sources: ai.google.dev, guides "Thinking", "Thought signatures" and "Function calling"."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.options import Capabilities
from dragoman.protocols.hosts import host_of

_CURRENT = 3.0
"""The generation of a model that does not name its own."""


class GoogleCapabilities(Struct, frozen=True, kw_only=True):
    """What one Google upstream accepts and needs."""

    google_generation: float | None = None
    """Generation of the model, such as 2.5 or 3.1. From 3 on it thinks by levels, else by token
    budgets (2.5) or not at all; wants the signatures of its calls back; takes media inside the
    results of tools, an answer's schema beside tools, and the vendor's search beside functions.
    Absent: the number in the model's name, and 3 for a name without one."""
    google_cloud: bool | None = None
    """Google upstream is Vertex AI, which has labels and names of files, and no identifiers of
    calls but its own. Absent: where the host of `base_url` is `aiplatform.googleapis.com` or one of
    its regions."""
    google_json_schema: bool = True
    """Google upstream takes JSON schemas (`parametersJsonSchema`, `responseJsonSchema`); otherwise
    they are fitted to the subset of OpenAPI that older ones take."""
    google_call_ids: bool | None = None
    """Google upstream takes identifiers of calls that it did not make. Absent: all but Vertex
    AI."""
    google_file_urls: bool | None = None
    """Google upstream fetches images and documents from http(s) addresses; otherwise they are
    refused as lost content. Absent: only Vertex AI."""
    google_placeholder_signatures: bool = True
    """A call in the history that another model made has the placeholder in place of a signature
    that Google documents for it, which costs some quality; otherwise it is lost content. Where no
    signatures are wanted, before generation 3, it has none."""
    google_result_errors: bool = False
    """Interactions upstream takes `is_error` on results of tools; otherwise the text alone tells of
    a failure (`tool_error_prefix`)."""
    google_penalties: bool = False
    """The model takes presence and frequency penalties, which many refuse."""

    @property
    def generation(self) -> float:
        """The generation of the model."""
        return _CURRENT if self.google_generation is None else self.google_generation

    @property
    def takes_call_ids(self) -> bool:
        """Whether calls and results have identifiers."""
        return not self.google_cloud if self.google_call_ids is None else self.google_call_ids

    @property
    def takes_file_urls(self) -> bool:
        """Whether files may be given by http(s) addresses."""
        return bool(self.google_cloud if self.google_file_urls is None else self.google_file_urls)

    @property
    def thinks(self) -> bool:
        """Whether the model can be asked to think."""
        return self.generation >= 2.5

    @property
    def is_signed(self) -> bool:
        """Whether the model signs its calls and wants the signatures back, thinks by levels, and
        mixes tools with everything else: from the third generation on."""
        return self.generation >= 3


def completed(capabilities: Capabilities, base_url: str, model: str) -> Capabilities:
    """The capabilities with what follows from the upstream's address and the model's name."""
    own = capabilities.of(GoogleCapabilities)
    values: dict[str, Any] = {}
    if own.google_generation is None:
        values["google_generation"] = generation_of(model)
    if own.google_cloud is None:
        values["google_cloud"] = is_vertex(host_of(base_url))
    if values:
        own = replace(own, **values)
        capabilities = replace(capabilities, own={**capabilities.own, GoogleCapabilities: own})
    return capabilities


def is_vertex(host: str) -> bool:
    """Whether a host is one of Vertex AI, which has a region before its name."""
    first, _, rest = host.partition(".")
    return (first == "aiplatform" or first.endswith("-aiplatform")) and rest.endswith(
        "googleapis.com"
    )


_NAMED = re.compile(r"gemini-(?:[a-z]+-)*(\d+(?:\.\d+)?)(?![\d])")
_WITHOUT_THOUGHT = re.compile(r"gemma|learnlm|-tts\b|gemini-2\.5-flash-image|embedding")
_BEFORE_THOUGHT = 2.0


class Budgets(Struct, frozen=True):
    """The thinking budgets, in tokens, that a model takes; `off` is whether 0 is one of them."""

    least: int
    most: int
    off: bool


_PRO = Budgets(128, 32768, False)
_LITE = Budgets(512, 24576, True)
_FLASH = Budgets(1, 24576, True)


def generation_of(model: str) -> float | None:
    """The generation in a model's name; that of models that do not think for those; None if the
    name has none."""
    name = model.lower()
    if _WITHOUT_THOUGHT.search(name):
        return _BEFORE_THOUGHT
    found = _NAMED.search(name)
    return None if found is None else float(found[1])


def budgets_of(model: str) -> Budgets:
    """The thinking budgets of a model of generation 2.5, by its name."""
    name = model.lower()
    if "lite" in name:
        return _LITE
    return _FLASH if "flash" in name else _PRO
