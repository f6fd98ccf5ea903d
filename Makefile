# Two commands from a fresh machine: `make demo` and `make test`. Needs make and Python 3.11+.

PYTHON ?= python3
PORT ?= 8080
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
UV_VENV := .lock-venv

.DEFAULT_GOAL := help
.PHONY: help demo test check-fast lint javascript format types pytest mutants bench differential docs lock node clients frameworks record-clients drift release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## serve the demo on 127.0.0.1:8080 (PORT= overrides)
	@exec $(BIN)/dragoman demo --port $(PORT)

# mypy takes one core for a minute, of which tests leave the half.
test: lint ## lint, types and every test
	@$(MAKE) --no-print-directory --jobs=2 types pytest

# Tests that open no socket and start no process, without those that are marked slow. A test holds
# these folders to it.
FAST := tests/accounts tests/canonical tests/keys tests/limits tests/losses tests/prices tests/programs \
	tests/protocols tests/tables \
	tests/test_config.py tests/test_config_rules.py tests/test_documentation.py tests/test_failing.py \
	tests/test_jsontext.py tests/test_pass_through_shape.py tests/test_protocol_names.py \
	tests/test_sse.py
check-fast: lint types $(VENV)/.dev ## lint, types and the tests without sockets: under a minute, before each commit
	$(BIN)/pytest --quiet --numprocesses 2 --dist loadfile -m "not slow" $(FAST)

lint: $(VENV)/.dev javascript ## ruff, the import contracts, and the JavaScript of the dashboard
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

# Nothing but Python is needed to run the tests: without npm this is skipped, but not in .ci/run.
JAVASCRIPT := tools/javascript
javascript: ## prettier, eslint and tsc over the dashboard (needs npm)
	@if command -v npm >/dev/null; then \
		$(MAKE) --no-print-directory $(JAVASCRIPT)/node_modules/.package-lock.json && \
		npm run check --prefix $(JAVASCRIPT); \
	elif [ -n "$$DRAGOMAN_REQUIRE_SERVICES" ]; then \
		echo "npm is not installed: the JavaScript of the dashboard cannot be checked" >&2; exit 1; \
	else \
		echo "Skipped: the JavaScript of the dashboard is checked only where npm is installed"; \
	fi

types: $(VENV)/.dev ## mypy, strict
	nice $(BIN)/mypy

# Tests of one file stay together: what they share is started once. Files come in the order of their
# names, not those with few tests last, which take long and leave the other processes with nothing.
# Many tests wait for most of their time, so there are two processes more than cores.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); echo $$((n < 3 ? n + 2 : 4)))
pytest: $(VENV)/.dev ## the tests alone (ARGS= is passed on, WORKERS= is how many run at once)
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

mutants: $(VENV)/.dev ## put bugs into the core and see which no test notices (ARGS= is passed on)
	$(BIN)/python -m tools.mutation $(ARGS)

bench: $(VENV)/.dev ## measure cost per request and per event (ARGS= is passed on)
	$(BIN)/python -m bench $(ARGS)

differential: $(VENV)/.dev ## compare with another version (OLD= is its checkout or wheel, ARGS= is passed on)
	$(BIN)/python -m tools.differential --old $(OLD) $(ARGS)

drift: $(VENV)/.dev ## what the installed SDKs have that the gateway does not account for
	$(BIN)/python -m tools.drift

docs: $(VENV)/.dev ## write the generated pages
	$(BIN)/python -m dragoman.config.reference docs/configuration.md
	$(BIN)/python -m tools.pages.matrix
	$(BIN)/python -m tools.pages.translation_fields
	$(BIN)/python -m tools.pages.accounts
	$(BIN)/python -m tools.pages.monitoring
	$(BIN)/python -m tools.pages.client_losses
	$(BIN)/python -m tools.pages.operations
	$(BIN)/python -m dragoman.lab.guides docs/clients.md
	$(BIN)/python -m dragoman.api_page docs/library.md

format: $(VENV)/.dev ## let ruff rewrite the code, and prettier the dashboard where npm is installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	@if command -v npm >/dev/null; then \
		$(MAKE) --no-print-directory $(JAVASCRIPT)/node_modules/.package-lock.json && \
		npm run format --prefix $(JAVASCRIPT); \
	fi

node: tests/node/node_modules/.package-lock.json ## install the Node SDKs that the tests judge with

CLIENTS := tests/clients
UNLOCKED := $(CLIENTS)/qwen-code $(CLIENTS)/guided
AGENTS := $(CLIENTS)/node_modules/.package-lock.json $(UNLOCKED:=/node_modules/.package-lock.json) \
	$(CLIENTS)/.venv/.installed $(CLIENTS)/.venv-frameworks/.installed
clients: $(AGENTS) ## install the agents that the tests drive

frameworks: $(CLIENTS)/.venv-llama-index/.installed $(CLIENTS)/.venv-aider/.installed ## install LlamaIndex and Aider, each in an environment of its own

record-clients: $(VENV)/.dev clients frameworks ## record anew what the agents send
	$(BIN)/python -m tools.clients.record
	$(BIN)/python -m tools.pages.client_losses
	$(BIN)/python -m tools.pages.operations

# uv only resolves here: it is thrown away, and neither the package nor its tests need it.
LOCK := $(UV_VENV)/bin/uv pip compile --quiet --universal --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
LEAST := --python-version 3.11

lock: ## resolve the requirement locks anew (UPGRADE=--upgrade takes newer versions)
	$(PYTHON) -m venv --clear $(UV_VENV)
	$(UV_VENV)/bin/python -m pip --disable-pip-version-check --quiet install uv
	$(LOCK) $(LEAST) $(UPGRADE) --group build pyproject.toml --output-file requirements/runtime.lock
	$(LOCK) $(LEAST) $(UPGRADE) --group dev pyproject.toml --constraint requirements/runtime.lock \
		--output-file requirements/dev.lock
	$(LOCK) $(LEAST) $(UPGRADE) --group build --extra postgres --extra sign-in pyproject.toml \
		--constraint requirements/dev.lock --output-file requirements/image.lock
	$(LOCK) $(LEAST) $(UPGRADE) --group release pyproject.toml \
		--constraint requirements/runtime.lock --output-file requirements/release.lock
	$(LOCK) --python-version 3.12 --no-deps $(UPGRADE) --group helm \
		--output-file requirements/helm.lock
	for name in requirements frameworks llama-index aider; do \
		$(LOCK) $(LEAST) $(UPGRADE) $(CLIENTS)/$$name.in --output-file $(CLIENTS)/$$name.lock || exit; \
	done
	rm -rf $(UV_VENV)

RELEASE := .venv-release
release: $(VENV)/.dev $(RELEASE)/.installed ## build and check all that is published, in dist/ (needs no network)
	$(BIN)/python -m tools.release dist

clean: ## remove what the other targets made
	rm -rf $(VENV) $(UV_VENV) .peers tests/node/node_modules $(JAVASCRIPT)/node_modules $(CLIENTS)/node_modules \
		$(UNLOCKED:=/node_modules) $(CLIENTS)/.venv $(CLIENTS)/.venv-* $(RELEASE) dist .mypy_cache .ruff_cache .pytest_cache .mutation \
		.hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dragoman needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps sit in the virtualenv, so that removing it removes them. The package is installed in
# place: a changed source needs no new install.
$(VENV)/.runtime: requirements/runtime.lock pyproject.toml | $(BIN)/python
	$(PIP) install --requirement requirements/runtime.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.lock requirements/runtime.lock pyproject.toml | $(BIN)/python
	$(PIP) install --requirement requirements/dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.runtime $@

# Of these hundreds of megabytes of Python little is imported: that is compiled when it is.
LAZILY := --no-compile

# To unpack a pip of its own takes each of them seconds of a processor.
$(RELEASE)/.installed: requirements/release.lock requirements/helm.lock | $(BIN)/python
	$(PYTHON) -m venv --clear --without-pip $(RELEASE)
	$(PIP) --python $(RELEASE)/bin/python install $(LAZILY) \
		--require-hashes --requirement requirements/release.lock
	$(PIP) --python $(RELEASE)/bin/python install $(LAZILY) \
		--no-deps --ignore-requires-python --require-hashes --requirement requirements/helm.lock
	@touch $@

tests/node/node_modules/.package-lock.json $(JAVASCRIPT)/node_modules/.package-lock.json: \
		%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	npm ci --prefix $* --no-audit --no-fund
	@touch $@

# npm runs no package's install script unasked; Claude Code's puts its binary in place.
$(CLIENTS)/node_modules/.package-lock.json: $(CLIENTS)/package.json $(CLIENTS)/package-lock.json
	npm ci --prefix $(CLIENTS) --no-audit --no-fund --ignore-scripts
	cd $(CLIENTS)/node_modules/@anthropic-ai/claude-code && \
		PATH="../../.bin:$$PATH" node install.cjs
	@touch $@

$(UNLOCKED:=/node_modules/.package-lock.json): %/node_modules/.package-lock.json: %/package.json
	npm install --prefix $* --omit=optional --no-package-lock --no-audit --no-fund \
		--ignore-scripts
	@touch $@

$(CLIENTS)/.venv/.installed: $(CLIENTS)/requirements.lock | $(BIN)/python
	$(PYTHON) -m venv --clear --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install $(LAZILY) --require-hashes --requirement $<
	@touch $@

$(CLIENTS)/.venv-%/.installed: $(CLIENTS)/%.lock | $(BIN)/python
	$(PYTHON) -m venv --clear --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install $(LAZILY) --require-hashes --requirement $<
	@touch $@
