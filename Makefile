# The only task runner.  `make demo` and `make test` need Python 3.11 or newer and make, nothing else.

PYTHON  ?= python3
WORKERS ?= 2
BENCH   ?= votes_only
DATA    ?= ../shared/data
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint types docs bench results clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  PYTHON=python3.12 chooses the interpreter for .venv; ARGS="..." is passed on by demo, test and bench;'
	@echo '  WORKERS=0 runs the tests in one process.'

demo: $(VENV)/.core  ## Label a small data set from its votes and write a report to build/demo
	@$(BIN)/labelfable demo --out build/demo $(ARGS)

test: $(VENV)/.dev  ## Run the tests; make test ARGS="-k votes" runs some
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(VENV)/.dev  ## Check style, format and who imports whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: $(VENV)/.dev  ## Check types, strictly
	@$(BIN)/mypy

docs: $(VENV)/.dev  ## Build the documentation into build/site
	@$(BIN)/mkdocs build --strict --quiet
	@echo 'Documentation: build/site/index.html'

bench: $(VENV)/.dev  ## Measure speed and memory: BENCH=votes_only or published_dense
	@$(BIN)/python benchmarks/$(BENCH).py $(ARGS)

results: $(VENV)/.dev  ## Measure accuracy and renew docs/results.md; DATA=folder, ARGS="--peers --seeds 5"
	@$(BIN)/labelfable bench $(DATA) --out build/bench --docs docs/results.md $(ARGS)
	@$(BIN)/labelfable bench-size --out build/bench --docs docs/results.md
	@$(BIN)/labelfable bench-gain --out build/bench --docs docs/results.md

clean:  ## Remove build/ and caches; keep .venv
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Set-up.  An empty file in .venv stands for each installation and is remade when pyproject.toml is newer, so that a
# second run starts at once.  The development installation contains the core, hence it marks both.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'labelfable needs Python 3.11 or newer; "$(PYTHON)" is:' "$$($(PYTHON) --version 2>&1 | head -n 1)"; \
	  echo 'Name another interpreter: make PYTHON=python3.12 ...'; exit 1; }
	@echo 'Creating $(VENV)'
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo 'Installing labelfable into $(VENV)'
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo 'Installing labelfable and its development tools into $(VENV)'
	@$(PIP) install --editable '.[dev]'
	@touch $(VENV)/.core $@
