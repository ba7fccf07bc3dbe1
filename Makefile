# Thin: makes .venv, then meson, pip and pytest do the work. A second run does only what changed.
#     make demo        train the example networks, with pictures        make test       all tests
#     make bench       our times beside JAX's                           make exhaustive long tests
#     make measure     the numbers of docs/performance.md               make lint       format and static checks
#     make docs        docs/functions.md from the op table              make clean      remove all that was built
#     make format      rewrite in the project's format
PYTHON ?= python3
ARGS   ?=
BENCH  ?= dispatch,pinn,big,kernels,derivs,laplace,grids,loops,ode,linalg,lbfgs,lbfgs_share,random
VENV   := .venv
BIN    := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Folders are among the sources: their time changes when a file comes or goes, and meson must then read the lists again.
SOURCES := $(shell find include src python tests/c examples/c bench/peak.c -not -name '*.pyc' -not -name __pycache__) \
           meson.build meson.options pyproject.toml tools/list_sources.py
C_FILES := $(shell find src python/ext tests/c examples/c -name '*.c')
# The build for another CPU takes part where its compiler and an emulator are installed.
NEON    := $(if $(and $(shell command -v aarch64-linux-gnu-gcc),$(shell command -v qemu-aarch64)),build-neon/.stamp)

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py $(ARGS)

test: $(VENV)/.installed $(VENV)/.test build-san/.stamp $(NEON)
	$(BIN)/python -m pytest -q $(ARGS)

exhaustive: $(VENV)/.installed $(VENV)/.test build-san/.stamp $(NEON)
	QUABLA_EXHAUSTIVE=1 $(BIN)/python -m pytest -q $(ARGS)

PEERS := jax=$(CURDIR)/.venv-bench/bin/python:jax_cases.py quabla=$(CURDIR)/$(BIN)/python:quabla_cases.py
bench: $(VENV)/.installed .venv-bench/.installed
	$(BIN)/python bench/compare.py $(BENCH) $(PEERS) --out bench/results $(ARGS)

# The tables and the picture of docs/performance.md: half an hour, on a machine that does nothing else.
PAGE  := docs/performance.md
measure: $(VENV)/.installed .venv-bench/.installed
	$(BIN)/python bench/limits.py --into $(PAGE)
	$(BIN)/python bench/compare.py $(BENCH) $(PEERS) --out bench/results --into $(PAGE)
	$(BIN)/python bench/compiling.py --into $(PAGE)
	$(BIN)/python bench/neighbour.py $(PEERS) --into $(PAGE)
	$(BIN)/python bench/compare.py growth $(PEERS) --out bench/results/growth
	$(BIN)/python bench/growth.py bench/results/growth/results.json docs/growth.png --into $(PAGE)

docs: $(VENV)/.tools
	$(BIN)/python tools/docs.py

lint: $(VENV)/.installed $(VENV)/.test
	sh tools/lint.sh

format: $(VENV)/.test
	$(BIN)/ruff check -q --fix-only .
	$(BIN)/ruff format -q .
	clang-format -i $(C_FILES)

clean:
	rm -rf $(VENV) .venv-bench demo build build-san build-neon .pytest_cache .ruff_cache .hypothesis

$(VENV)/.tools: tools/requirements.txt
	@sh tools/check_toolchain.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -r $<
	@touch $@

$(VENV)/.test: tools/requirements-test.txt $(VENV)/.tools
	$(BIN)/python -m pip install -q -r $<
	@touch $@

.venv-bench/.installed: tools/requirements-bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install -q -r $<
	@touch $@

# Not an editable install: that one asks ninja at every import. pip keeps its build in build/, so only what changed is compiled.
$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	@sh tools/check_toolchain.sh $(PYTHON)
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps \
	    --config-settings=build-dir=build --config-settings=setup-args=-Dtests=true .
	@touch $@

# The core and its C tests with asserts, ASan and UBSan.
build-san/.stamp: $(VENV)/.tools $(SOURCES)
	@if sh tools/check_toolchain.sh --sanitizers; then sh tools/configure.sh build-san \
	    -Dpython=false -Dtests=true -Dbuildtype=debug -Doptimization=1 -Db_sanitize=address,undefined; \
	else mkdir -p build-san; echo 'quabla: no ASan and UBSan here: the tests under them are skipped'; fi
	@touch $@

build-neon/.stamp: $(VENV)/.tools $(SOURCES)
	@sh tools/configure.sh build-neon -Dpython=false -Dtests=true --cross-file tools/aarch64.ini
	@touch $@

.PHONY: demo test exhaustive bench measure docs lint format clean
