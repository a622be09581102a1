# make verify   a fresh machine with python3, pip and make is enough: it makes .venv and verifies the CartPole example
# make test     lint, types and the tests, and test-versions; make test-all adds the slow ones and installs Ray for its own
# make test-versions   older TorchRL beside this torch, from the package index; skipped where there is none
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
SPEC ?= fixtures/specs/cartpole_dqn.yaml
N ?= 50

BIN := $(VENV)/bin
# --without-pip and `pip --python`: systems that ship python3 and pip often leave ensurepip out.
INSTALL := $(PYTHON) -m pip --python $(BIN)/python install --constraint constraints.txt
FAST := not slow and not gpu and not ray and not versions

.PHONY: verify test test-all test-versions lint format dist docs docs-checks picture bench-self bench-watching bench-peers check-peers bench-agree gpu memory-demo gate-power gate-levels seeds attack clean
.DELETE_ON_ERROR:

verify: $(VENV)/.installed
	$(BIN)/rnncheck verify $(SPEC)

test: lint
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "$(FAST)"
	$(MAKE) test-versions

test-all: lint $(VENV)/.installed-ray
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

test-versions: $(VENV)/.installed-dev
	$(BIN)/pytest -m versions tests/versions

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, in build/docs/html. A warning is an error, and nothing in it asks the network when it is read.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m website build/docs/source
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c website build/docs/source build/docs/html

# The picture of the HTML report in README; takes a Chromium.
picture: $(VENV)/.installed
	$(BIN)/python -m website.picture

# The list of checks in docs/checks.md, from the catalogue; a test holds the two equal.
docs-checks: $(VENV)/.installed
	$(BIN)/rnncheck rule --format markdown > $(VENV)/checks.list
	sed -e '/<!-- checks -->/,/<!-- \/checks -->/{//!d;}' \
	    -e '/<!-- checks -->/r $(VENV)/checks.list' docs/checks.md > $(VENV)/checks.md
	cp $(VENV)/checks.md docs/checks.md

# False alarms: every healthy fixture with N seeds, in one process.
seeds: $(VENV)/.installed
	$(BIN)/python benchmarks/seeds.py -n $(N)

# 2000 mutated specs and as many results, streams and disks; ATTACK takes its options, e.g. ATTACK="--only streams"
attack: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/attack.py $(ATTACK)

# What watching costs the scripts of fixtures/scripts, and whether it changes a number; WATCHING takes its options.
bench-watching: $(VENV)/.installed
	$(BIN)/python benchmarks/watching.py $(WATCHING)

bench-self: $(VENV)/.installed
	$(BIN)/python benchmarks/bench_self.py

# Beside pytest-benchmark, torch.utils.benchmark and TorchRL's own script; PEERS takes its options, e.g. PEERS=--small
bench-peers: $(VENV)/.installed-peers
	$(BIN)/python benchmarks/bench_peers.py $(PEERS)

# What the checkers of envs say of every fault of the fixtures: the table of README.
check-peers: $(VENV)/.installed-peers
	$(BIN)/python benchmarks/env_checkers.py

# All that waits for CUDA; GPU takes its options, e.g. GPU="--only sweep", GPU="--device cpu --list"
gpu: $(VENV)/.installed-dev $(VENV)/.installed-peers
	$(BIN)/python benchmarks/gpu.py $(GPU)

# How far two runs of a sweep agree, quiet and with every core loaded.
bench-agree: $(VENV)/.installed
	$(BIN)/python benchmarks/bench_agree.py

# The T-maze's agents, trained again, and what they remember: the figures of README and docs/memory.md.
memory-demo: $(VENV)/.installed
	cd fixtures/memory && ../../$(BIN)/python train_tmaze.py 9 tmaze.pt
	cd fixtures/memory && ../../$(BIN)/python train_tmaze.py 4 tmaze_short.pt
	$(BIN)/rnncheck memory fixtures/memory/tmaze.yaml
	$(BIN)/rnncheck memory fixtures/memory/tmaze_short_slices.yaml

# What a gate's verdict on speed is worth, beside what people use today: 3 N gates of A against A, 2 N and N with
# planted slow-downs of 5 % and 20 %, with every core loaded.
gate-power: $(VENV)/.installed-dev $(VENV)/.installed-peers
	$(BIN)/python benchmarks/gate_power.py --rounds $(N)

# The same for thousands of gates, drawn from pairs of processes that were measured under load.
gate-levels: $(VENV)/.installed
	$(BIN)/python benchmarks/gate_levels.py --gates 20000 fixtures/runs/gate_pairs_loaded.jsonl

# The sdist and the wheel, checked; the wheel then works in an empty environment outside of the checkout.
dist: $(VENV)/.installed-dist
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(PYTHON) -m venv --without-pip "$$folder/venv" && \
	$(PYTHON) -m pip --python "$$folder/venv/bin/python" install --quiet --constraint constraints.txt torch && \
	$(PYTHON) -m pip --python "$$folder/venv/bin/python" install --quiet --constraint constraints.txt dist/*.whl && \
	cd "$$folder" && PATH="$$folder/venv/bin:$$PATH" && unset PYTHONPATH && \
	rnncheck init && rnncheck verify --quiet && rnncheck rule BD301 && \
	rnncheck report .rnncheck/runs/latest.json --report markdown=report.md && test -s report.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The pinned torch goes first, so that no range can bring another build of it.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rnncheck needs Python 3.11 or newer; choose one with: make PYTHON=python3.11")'
	$(PYTHON) -m venv --without-pip $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/.installed-ray: $(VENV)/.installed-dev
	$(INSTALL) --editable '.[ray]'
	touch $@

$(VENV)/.installed-dist: $(VENV)/.installed
	$(INSTALL) --editable '.[dist]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(INSTALL) --editable '.[docs]'
	touch $@

$(VENV)/.installed-peers: $(VENV)/.installed
	$(INSTALL) --editable '.[peers]'
	touch $@
