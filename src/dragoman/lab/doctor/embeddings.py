"""A client of embeddings: whether it has one vector for each text, in the encoding it asked for."""

from __future__ import annotations

import base64
import binascii
import ssl
from typing import Any

from dragoman.lab.doctor.answers import Answer
from dragoman.lab.doctor.calls import Caller
from dragoman.lab.doctor.checks import Check
from dragoman.lab.doctor.common import problem_of
from dragoman.lab.doctor.report import Findings
from dragoman.upstream import UpstreamClient

CHECKS = (
    Check(
        "embeddings.each",
        "embeddings are one vector for each text, in their order",
        "indexes store the vector of one text for another",
        "answer with as many objects in data as there are inputs, with index from 0",
    ),
    Check(
        "embeddings.numbers",
        "embeddings are numbers when encoding_format is float or absent",
        "clients without an SDK read a text where they expect numbers",
        "send an array of numbers unless base64 is asked for",
    ),
    Check(
        "embeddings.base64",
        "embeddings are base64 when encoding_format asks for it",
        "OpenAI's SDKs ask for it by themselves: in JavaScript vectors have a quarter of their "
        "length, without an error",
        "send base64 of little-endian float32 when encoding_format is base64",
    ),
)
_TEXTS = ["a pear", "a red apple"]
_NUMBER_BYTES = 4


async def examine_embeddings(
    url: str, key: str, model: str, tls: ssl.SSLContext | None = None
) -> Findings:
    """Ask the instance at `url` for embeddings of a model, in each encoding.

    Raises:
        ValueError: the URL or the key cannot be used.
    """
    findings = Findings(CHECKS)
    body: dict[str, Any] = {"model": model, "input": _TEXTS}
    async with UpstreamClient(tls=tls) as client:
        caller = Caller(client, url, key)
        plain = await caller.post("/v1/embeddings", body)
        packed = await caller.post("/v1/embeddings", {**body, "encoding_format": "base64"})
    length = 0
    for check, answer in (("embeddings.numbers", plain), ("embeddings.base64", packed)):
        problem = problem_of(answer, "application/json")
        if problem:
            findings.judge(check, problem)
            continue
        vectors, problem = _vectors(answer)
        findings.judge("embeddings.each", problem)
        for one in vectors:
            is_text = isinstance(one, str)
            if is_text is not (answer is packed):
                findings.judge(check, f"they are {'base64' if is_text else 'numbers'}")
                continue
            found = _length(one)
            length = length or found
            same = bool(found) and found == length
            findings.judge(check, None if same else f"a vector has {found} numbers, not {length}")
    return findings


def _vectors(answer: Answer) -> tuple[list[Any], str]:
    """The vectors of an answer, and what is wrong with their number or order."""
    body = answer.json
    data = body.get("data") if isinstance(body, dict) else None
    objects = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
    vectors = [one.get("embedding") for one in objects]
    if [one.get("index") for one in objects] != list(range(len(_TEXTS))):
        return vectors, f"data has {len(objects)} objects for {len(_TEXTS)} texts, or wrong indexes"
    return vectors, ""


def _length(vector: Any) -> int:
    """How many numbers a vector has; 0 for none."""
    if not isinstance(vector, str):
        return len(vector) if isinstance(vector, list) else 0
    try:
        return len(base64.b64decode(vector, validate=True)) // _NUMBER_BYTES
    except binascii.Error:
        return 0
