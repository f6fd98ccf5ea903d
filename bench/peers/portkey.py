"""Portkey's gateway, in JavaScript, from npm."""

from bench.peers.recipe import Recipe, Site, Start
from bench.targets import Access

VERSION = "1.15.2"

LOOPBACK = """\
// It listens on all addresses and has no setting for that: hold it to this machine.
const { Server } = require("node:net");
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  const done = rest.filter((value) => typeof value === "function");
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...done);
};
"""


def access(upstream: int) -> Access:
    """The upstream is named by each request's headers."""
    base = f"http://127.0.0.1:{upstream}/v1"

    def headers(provider: str) -> tuple[tuple[str, str], ...]:
        return ("x-portkey-provider", provider), ("x-portkey-custom-host", base)

    return Access(
        headers={
            "openai_chat": headers("openai"),
            "anthropic_messages": headers("anthropic"),
            "openai_responses": headers("openai"),
        }
    )


def start(site: Site) -> Start:
    """One process, without its console."""
    preload = site.folder / "loopback.cjs"
    program = site.installed / "node_modules/@portkey-ai/gateway/build/start-server.js"
    command: tuple[str, ...] = ("node", "--require", str(preload), str(program))
    command += (f"--port={site.port}", "--headless")
    env = {"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1"}
    return Start(command, {preload.name: LOOPBACK}, env, access(site.upstream))


RECIPE = Recipe(
    name="portkey",
    source=f"@portkey-ai/gateway {VERSION} from npm, Node.js, one process.",
    install=(
        ("npm", "init", "--yes"),
        (
            "npm",
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            f"@portkey-ai/gateway@{VERSION}",
        ),
    ),
    start=start,
    cells=("chat:chat", "chat:messages", "messages:messages", "responses:responses"),
    caveats=(
        "It has no keys, accounts or routes of its own: the client's headers name provider, "
        "address and key of the upstream. Ours looks up all of these.",
        "This version fails every stream under Node.js (Portkey-AI/gateway, 1389 and 1550).",
    ),
)
