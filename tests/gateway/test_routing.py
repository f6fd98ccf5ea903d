"""Where model names lead."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.canonical.errors import DragomanError, FaultKind
from dragoman.canonical.losses import Policy
from dragoman.config import Config, Fallback, Models, Route, Upstream
from dragoman.protocols.settings import make_capabilities, make_options, setting
from dragoman.serving.routing import Router, takes_detour
from dragoman.translation import ClientRequest
from tests.gateway.clients import body

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def upstreams(*names: str) -> tuple[Upstream, ...]:
    return tuple(
        Upstream(name=name, protocol="openai_chat", base_url="http://127.0.0.1:1") for name in names
    )


def leads(config: Config, name: str) -> tuple[str, str]:
    target = Router(config).resolve(name)
    return target.upstream.name, target.model


PROVIDERS = Config(upstreams=upstreams("anthropic", "openai", "google", "xai"))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("claude-sonnet-4-6", ("anthropic", "claude-sonnet-4-6")),
        ("claude-opus-4-6", ("anthropic", "claude-opus-4-6")),
        ("gpt-5-mini", ("openai", "gpt-5-mini")),
        ("claude-3-5-sonnet-20241022", ("anthropic", "claude-sonnet-4-5")),
        ("claude-3-opus-20240229", ("anthropic", "claude-opus-4-6")),
        ("claude-anything", ("anthropic", "claude-anything")),
        ("gpt-6", ("openai", "gpt-6")),
        ("gemini-3", ("google", "gemini-3")),
        ("grok-5", ("xai", "grok-5")),
        ("anthropic/claude-x", ("anthropic", "claude-x")),
        ("openai/o9", ("openai", "o9")),
        ("openai/ft:gpt/x", ("openai", "ft:gpt/x")),
    ],
)
def test_habits(name: str, target: tuple[str, str]) -> None:
    """Aliases, retired names, patterns and provider prefixes. req: 145, 146, 147, 148"""
    assert leads(PROVIDERS, name) == target


@pytest.mark.parametrize(
    ("base_url", "told", "sent"),
    [
        ("https://api.anthropic.com", None, True),
        ("https://api.anthropic.com/v1", False, False),
        ("https://anthropic.com.example/v1", None, None),
        ("https://relay.example/anthropic.com", None, None),
        ("https://relay.example", True, True),
    ],
)
def test_who_is_sent_the_billing_text(base_url: str, told: bool | None, sent: bool | None) -> None:
    """Anthropic itself, unless the configuration says otherwise: by a route, a fallback, a name."""
    upstream = Upstream(
        name="a",
        protocol="anthropic_messages",
        base_url=base_url,
        capabilities=make_capabilities(billing_header=told),
    )
    other = Upstream(name="b", protocol="openai_chat", base_url="https://b.example")
    route = Route(match="m", upstream="b", fallbacks=(Fallback(upstream="a"),))
    routes = (Route(match="n", upstream="a"), route)
    router = Router(Config(upstreams=(upstream, other), routes=routes))
    targets = [router.resolve("n"), router.resolve("a/x"), *router.resolve("m").fallbacks]
    assert [setting(target.capabilities, "billing_header") for target in targets] == [sent] * 3
    assert setting(router.resolve("m").capabilities, "billing_header") is None


ROUTED = Config(
    upstreams=upstreams("a", "b"),
    routes=(
        Route(match="exact", upstream="a", model="renamed"),
        Route(match="ex*", upstream="b"),
        Route(match="*-mini", upstream="a", model="small"),
        Route(match="vendor/*", upstream="b"),
        Route(match="claude-sonnet-4-5", upstream="a", model="sonnet"),
        Route(match="gpt-*", upstream="b"),
    ),
)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("exact", ("a", "renamed")),
        ("exactly", ("b", "exactly")),
        ("some-mini", ("a", "small")),
        ("vendor/x", ("b", "vendor/x")),
        ("a/whatever", ("a", "whatever")),
        ("claude-3-5-sonnet-20241022", ("a", "sonnet")),
        ("openai/gpt-7", ("b", "gpt-7")),
        ("elsewhere/gpt-7", ("b", "gpt-7")),
    ],
)
def test_routes_come_first_and_the_first_match_wins(name: str, target: tuple[str, str]) -> None:
    assert leads(ROUTED, name) == target


@pytest.mark.parametrize("name", ["nothing", "c/x", "a/", "/x", "gpt", "Exact"])
def test_an_unknown_model_is_a_404_that_names_the_field(name: str) -> None:
    with pytest.raises(DragomanError) as caught:
        Router(ROUTED).resolve(name)
    fault = caught.value.fault
    assert (fault.kind, fault.param) == (FaultKind.MODEL_NOT_FOUND, "model")


def test_own_aliases() -> None:
    config = Config(
        upstreams=upstreams("a"),
        routes=(Route(match="real", upstream="a"),),
        models=Models(aliases={"nick": "real"}, legacy={}, prefixes={}),
    )
    assert leads(config, "nick") == ("a", "real")


def test_options_of_the_route() -> None:
    config = Config(
        upstreams=upstreams("a"),
        routes=(
            Route(match="strict", upstream="a", policy=Policy.STRICT),
            Route(
                match="own",
                upstream="a",
                options=make_options(policy=Policy.LENIENT, map_fast=True),
            ),
        ),
        options=make_options(map_fast=True),
    )
    router = Router(config)
    assert router.resolve("strict").options.policy is Policy.STRICT
    assert router.resolve("own").options.policy is Policy.LENIENT
    assert router.resolve("a/x").options.map_fast


def test_a_detour_has_those_of_its_fallbacks() -> None:
    """So that nothing is left to find out when a fallback is asked."""
    chat = Upstream(name="a", protocol="openai_chat", base_url="http://a")
    upstreams = (
        chat,
        replace(chat, name="b", reasoning_with_tools_via="c"),
        replace(chat, name="c"),
    )
    fallbacks = (Fallback(upstream="b"), Fallback(upstream="c", model="n"))
    routes = (
        Route(match="m", upstream="a", fallbacks=fallbacks),
        Route(match="x", upstream="b", fallbacks=fallbacks[1:]),
        Route(match="y", upstream="a", fallbacks=fallbacks[1:]),
    )
    router = Router(Config(upstreams=upstreams, routes=routes))

    def asked(name: str, tools: bool) -> list[tuple[str, str]]:
        made = body("chat", name, reasoning_effort="high", tools=[TOOL] if tools else [])
        request = ClientRequest("openai_chat", json.dumps(made).encode())
        target = router.resolve(name)
        if target.detour is not None and takes_detour(target, request):
            target = target.detour
        return [(one.upstream.name, one.model) for one in (target, *target.fallbacks)]

    assert asked("m", tools=False) == [("a", "m"), ("b", "m"), ("c", "n")]
    assert asked("m", tools=True) == [("a", "m"), ("c", "m"), ("c", "n")]
    assert asked("x", tools=False) == [("b", "x"), ("c", "n")]
    assert asked("x", tools=True) == [("c", "x"), ("c", "n")]
    assert asked("y", tools=True) == [("a", "y"), ("c", "n")]
