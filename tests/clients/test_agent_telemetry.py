"""Claude Code sends its telemetry to the gateway, which passes it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import Secret, Telemetry
from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.asking import ENVIRONMENT, ask
from tests.clients.programs import KEY
from tests.clients.stage import playing
from tests.gateway.posts import posts

MEDIA = {"http/json": "application/json", "http/protobuf": "application/x-protobuf"}


@pytest.mark.parametrize("form", MEDIA)
def test_its_telemetry_reaches_the_collector(
    form: str, simulator: RunningSimulator, tmp_path: Path
) -> None:
    """In either form, without its key; and every export is answered 200."""
    with (
        posts() as collector,
        playing("chat", simulator, telemetry=Telemetry(forward_to=Secret(collector.url))) as stage,
    ):
        variables = {
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            "OTEL_METRICS_EXPORTER": "otlp",
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": form,
            "OTEL_EXPORTER_OTLP_ENDPOINT": stage.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer {KEY}",
        }
        finished = stage.run(
            "claude-code",
            "some-model",
            ask(tmp_path / "work" / "notes.txt"),
            tmp_path,
            environment={**ENVIRONMENT["claude-code"], **variables},
        )
        assert finished.status == 0, finished
        sent = [
            line for line in stage.lines if line["route"] in ("POST /v1/metrics", "POST /v1/logs")
        ]
        assert {line["route"] for line in sent} == {"POST /v1/metrics", "POST /v1/logs"}
        assert {line["status"] for line in sent} == {200}
        simulator.wait_for(lambda: len(collector.got) == len(sent))
    assert {post.path for post in collector.got} == {"/v1/metrics", "/v1/logs"}
    assert {post.headers["content-type"] for post in collector.got} == {MEDIA[form]}
    assert not any(KEY in str(post.headers) for post in collector.got)
