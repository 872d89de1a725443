# `make demo` and `make test` do all of their set-up themselves (.ci/setup.sh); `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# Debian's Prometheus is unpacked there for the tests.
export PATH := $(CURDIR)/.tools/usr/bin:$(PATH)

PYTHON ?=
PY := .venv/bin/python
SETUP := PYTHON='$(PYTHON)' bash .ci/setup.sh
JOBS ?= $(shell nproc)
SCENARIO ?=
ARGS ?=

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F'\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## the story, simulated: live on a terminal, plain text elsewhere (SCENARIO=name, ARGS=options)
	@$(SETUP) demo
	@plain=--plain; if [ -t 0 ] && [ -t 1 ]; then plain=; fi; \
	status=0; $(PY) -m bubblewatch demo $(SCENARIO) $$plain $(ARGS) || status=$$?; \
	if [ $$status -gt 1 ]; then exit $$status; fi  # 1 means that it found something, which is the story

.PHONY: test
test: ## all tests (JOBS=processes, ARGS=options of pytest)
	@$(SETUP) test
	$(PY) -m pytest -n $(JOBS) --dist loadfile $(ARGS)

.PHONY: check check-set-up check-format check-lint check-types check-imports check-rules check-alerts
check: check-format check-lint check-types check-imports check-rules check-alerts ## format, lint, types, imports, rules; no tests
check-set-up:
	@$(SETUP) check
check-format: check-set-up
	$(PY) -m ruff format --check .
check-lint: check-set-up
	$(PY) -m ruff check .
check-types: check-set-up
	$(PY) -m mypy
check-imports: check-set-up
	.venv/bin/lint-imports
check-rules: check-set-up
	$(PY) -m bubblewatch rules lint
	$(PY) -m bubblewatch rules test
check-alerts: check-set-up
	@shopt -s nullglob; for file in rules/alerts/*.y*ml; do \
	  case $$file in *test*) promtool test rules $$file ;; *) promtool check rules $$file ;; esac || exit 1; \
	done

.PHONY: format
format: check-set-up ## put the code into its format and mend what the linter can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: bench
bench: ## the benchmarks, printed
	@$(SETUP) test
	@if [ -e tests/bench/__main__.py ]; then $(PY) -m tests.bench $(ARGS); else echo "there are no benchmarks in tests/bench yet"; fi

.PHONY: fuzz
fuzz: ## every parser of foreign text, with many more examples than the tests (EXAMPLES=number for each)
	@$(SETUP) test
	FUZZ_EXAMPLES=$(or $(EXAMPLES),5000) $(PY) -m pytest -n $(JOBS) tests/fuzz $(ARGS)

.PHONY: constraints
constraints: ## write constraints.txt anew from the newest releases that pyproject.toml allows
	@$(SETUP) test
	$(PY) .ci/constraints.py

.PHONY: clean clean-all
clean: ## remove caches and build products
	rm -rf build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .whl
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
clean-all: clean ## also remove the virtual environment and the unpacked tools
	rm -rf .venv .tools
