# From a bare checkout with only Python 3.11: `make demo` and `make test` do everything themselves.
# One environment, two stamps: the demo needs no developer tools, the tests do.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3.11 python3; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q -q -c constraints.txt
REQUIREMENTS := pyproject.toml paper/pyproject.toml constraints.txt

# The project's own datasets, where they lie beside the checkout; otherwise the package's default.
ifneq ($(wildcard ../shared/data),)
export MAGGNN_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help demo test check format site clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

demo: $(VENV)/.installed ## train MAG-GNN on embedded data, under three minutes on two cores
	$(BIN)/maggnn demo

test: check ## the checks, then the tests: offline, on the CPU, two files at a time
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: $(VENV)/.installed-dev ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: $(VENV)/.installed-dev ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

site: $(VENV)/.installed-dev ## the documentation site, into out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove the environment, caches and runs (never results/)
	rm -rf $(VENV) build dist runs out .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "maggnn needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Order-only on the interpreter: its timestamp is older than any stamp, its existence is what counts.
$(VENV)/.installed: $(REQUIREMENTS) | $(BIN)/python
	@echo "installing into $(VENV) (the first time takes a few minutes)"
	@$(PIP) -e . -e ./paper
	@touch $@

$(VENV)/.installed-dev: $(REQUIREMENTS) | $(BIN)/python
	@echo "installing into $(VENV), with the developer tools (the first time takes a few minutes)"
	@$(PIP) -e '.[dev]' -e ./paper
	@touch $(VENV)/.installed $@
