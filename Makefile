# Every target makes `.venv` by itself and needs nothing but Python 3.11 or newer, git and make.
# Another interpreter: `make PYTHON=python3.12 test`. Arguments: `make test ARGS="-k claims"`.

ifeq ($(OS),Windows_NT)
venv_bin := .venv/Scripts
else
venv_bin := .venv/bin
endif
python := $(venv_bin)/python
ARGS ?=
MINUTES ?= 5

.DEFAULT_GOAL := help
.PHONY: help setup demo test installation advisories acceptance fuzz chaos replay test-clients coverage lint format bench docs picture constraints clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup_command := $(or $(PYTHON),python3) tools/setup.py $(if $(PYTHON),--exact)

setup: ## Make or update .venv (the other targets do so by themselves)
	@$(setup_command)

demo: ## A broker, agents, a review and a hand-off cycle, live, in a minute
	@$(setup_command) --running
	@$(venv_bin)/tandem demo $(ARGS)

test: setup ## Everything that a change must pass, as CI runs it
	@$(python) tools/check.py $(ARGS)

installation: ## Install the folder, the sdist and the wheel into empty environments, and run each
	@$(or $(PYTHON),python3) tools/installation.py

advisories: ## Ask the package index for advisories about the pinned versions (ARGS=--required)
	@$(or $(PYTHON),python3) tools/advisories.py $(ARGS)

fuzz: setup ## Look for new counterexamples, at random and for some minutes (MINUTES=15 ARGS="-k edits")
	@$(python) tools/check.py --fuzz $(MINUTES) $(ARGS)

acceptance: setup ## The acceptance tests on PostgreSQL, with as many brokers at one address as BROKERS says (3)
	@TESTED_BROKERS=$(or $(BROKERS),3) $(python) -m pytest -q --both-databases -k "not sqlite" tests/acceptance $(ARGS)

chaos: setup ## Three brokers on PostgreSQL while all of it is killed, paused and cut off (SECONDS=120 CLIENTS=200)
	@TANDEM_CHAOS_SECONDS=$(or $(SECONDS),120) TANDEM_CHAOS_CLIENTS=$(or $(CLIENTS),200) \
		$(python) -m pytest -q -n 0 -s tests/acceptance/chaos.py $(ARGS)

replay: setup ## The commits of a repository through submit, approval and gate (REPOSITORY=path COMMITS=300)
	@$(python) -m tests.replaying $(if $(REPOSITORY),"$(REPOSITORY)") --commits $(or $(COMMITS),300) $(ARGS)

test-clients: setup ## The real client programs against scripted models (brings them: more than a gigabyte)
	@$(python) tools/clients.py $(ARGS)

coverage: setup ## The tests again, and what of the source they never reach (half as fast: it measures every process)
	@$(python) tools/check.py --tests --cov $(ARGS)

lint: setup ## Only the checks that read: format, lint, types, imports, documents
	@$(python) tools/check.py --static

format: setup ## Rewrite the source as the formatter and the linter's safe fixes have it
	@$(python) -m ruff check --fix --quiet . || true
	@$(python) -m ruff format .

bench: setup ## The benchmark: a real server over a real socket, against the floor
	@$(python) -m bench $(ARGS)

# The reference shows the commands, which come from the client's table: it is written second.
docs: setup ## Write what is generated again: the operations of the Python client, the table of commands, and the reference pages
	@$(python) tools/python_client.py $(ARGS)
	@$(python) tools/commands_table.py $(ARGS)
	@$(python) tools/reference.py $(ARGS)

picture: setup ## Record the README's picture again: a real session at two terminals
	@$(python) tools/picture.py

constraints: setup ## Pin what .venv has installed now
	@$(python) tools/constraints.py --write
	@$(python) tools/constraints.py --hash

clean: ## Remove the environment, caches and reports
	@rm -rf .venv .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache build dist htmlcov
	@find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
