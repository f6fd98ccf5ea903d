"""The files of the dashboard: what is vendored, how large they are, how they are served."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dragoman.dashboard.files import FOLDER, load_files
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import config_for
from tests.gateway.http import call
from tools.dashboard.vendored import KEPT, LIBRARIES, RECORD, digest

MOST_BYTES = 250_000
OWN = sorted(path for path in FOLDER.rglob("*.js") if path.parent.name != "vendor")
SINKS = (
    "dangerouslySetInnerHTML",
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
)


def test_what_is_vendored_is_what_was_recorded() -> None:
    recorded = json.loads(RECORD.read_text())
    assert set(recorded) == {library.kept for library in LIBRARIES}
    for library in LIBRARIES:
        entry = recorded[library.kept]
        assert (entry["package"], entry["version"]) == (library.package, library.version)
        assert digest((KEPT / library.kept).read_bytes()) == entry["sha256"]
        assert (KEPT / f"{library.package.replace('/', '-').lstrip('@')}.LICENSE").exists()


def test_types_are_those_of_what_is_vendored() -> None:
    """Their packages are installed for the type check alone."""
    tools = Path(__file__).parents[2] / "tools" / "javascript" / "package.json"
    installed = json.loads(tools.read_text())["devDependencies"]
    assert {one.package: installed.get(one.package) for one in LIBRARIES} == {
        one.package: one.version for one in LIBRARIES
    }


def test_all_modules_are_loaded_at_once() -> None:
    """Else browsers would load one after the other, as they import one another."""
    files = load_files()
    named = set(re.findall(r'href="([^"]+\.js)"', files.page.body.decode()))
    modules = {path for path in files.assets if path.endswith(".js")}
    assert {path.rpartition("/")[2] for path in modules - named} == {"app.js", "theme.js"}


def test_the_page_is_small() -> None:
    """As it is sent: compressed."""
    files = load_files()
    assert sum(len(file.compressed) for file in (files.page, *files.assets.values())) < MOST_BYTES


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_text_becomes_markup(path: Path) -> None:
    text = path.read_text()
    assert [sink for sink in SINKS if sink in text] == []
    assert "style=" not in re.sub(r"style=\$\{\{", "", text)  # the policy refuses them


def test_the_page_says_what_is_missing_where_its_files_cannot_be_loaded() -> None:
    """As below another path of a proxy. Its style sheet is what hides that."""
    assert "A proxy has to serve" in load_files().page.body.decode()


def test_the_page_names_only_its_own_files(gateway: RunningGateway) -> None:
    page = call(gateway.base_url, "GET", "/ui/accounts/any", key=None)
    assert page.status == 200
    assert page.headers["cache-control"] == "no-cache"
    named = re.findall(r'(?:href|src)="(/[^"]+)"', page.body.decode())
    assert named
    for path in named:
        found = call(gateway.base_url, "GET", path, key=None)
        assert found.status == 200, path
        assert "immutable" in found.headers["cache-control"], path
    assert call(gateway.base_url, "GET", f"{named[0]}x", key=None).status == 404


def test_its_headers_let_nothing_in(gateway: RunningGateway) -> None:
    page = call(gateway.base_url, "GET", "/ui", key=None)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


def test_it_is_served_only_with_an_administration() -> None:
    with (
        running_simulator() as simulator,
        running_gateway(config_for(simulator.base_url)) as gateway,
    ):
        assert call(gateway.base_url, "GET", "/ui").status == 404
