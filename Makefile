# Development, tests and the demonstration. Needs Python 3.11 or later; everything fetched lies in .dev/cache, everything made in .venv and .dev.
PYTHON ?= $(or $(firstword $(foreach one,python3 python3.11 python3.12 python3.13,$(shell $(one) -c 'import sys; sys.version_info >= (3, 11) and print("$(one)")' 2>/dev/null))),python3)
PY := .venv/bin/python
SOURCES := airflow_provider_connect spark_jobs dags tests
export AIRFLOW_PROVIDER_CONNECT_CACHE := $(CURDIR)/.dev/cache
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME

.PHONY: help setup demo up down status check test contract bench chaos

help: ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## environment, packages, bytecode, Kafka, class-data archives; skips what is done
	@$(PYTHON) airflow_provider_connect/dev/set_up.py

demo: setup ## a file through Kafka into a file, by two connector DAGs; stays up until Ctrl-C, or ends with ONCE=1
	@$(PY) -m airflow_provider_connect.dev.demo $(if $(filter-out 0,$(ONCE)),--once)

up: setup ## the same stack in the background, described by .dev/stack.json; WORKER=FILE for worker properties
	@$(PY) -m airflow_provider_connect.dev.stack up $(WORKER)

down: ## end what make up started
	@$(PY) -m airflow_provider_connect.dev.stack down

status: ## whether the stack is up, and where
	@$(PY) -m airflow_provider_connect.dev.stack status

check: setup ## lint, types, unit tests
	@$(PY) -m ruff check $(SOURCES)
	@$(PY) -m ruff format --check $(SOURCES)
	@$(PY) -m mypy
	@$(PY) -m pytest -q tests/unit

test: setup ## all that CI runs
	@$(PY) -m ruff check $(SOURCES)
	@$(PY) -m ruff format --check $(SOURCES)
	@$(PY) -m mypy
	@$(PY) -m pytest -q --durations=15

contract: setup ## replay all that was recorded of a real Kafka Connect, with real runs; S="NAME …" for some sessions
	@$(PY) -m tests.contract.rest $(S)

bench: setup ## race Kafka Connect; W=W1 for one work
	@$(PY) -m tests.benchmark $(if $(W),--work $(W))

chaos: setup ## kill everything everywhere and count records; KILLS=60 of runs, TABLES=60 of those with tables or of their connections, WRITERS=300 seconds of writing to tables that runs read, CONTROL=30 of servers, SEED=of a run to repeat
	@$(PY) -m tests.e2e.chaos $(if $(KILLS),--kills $(KILLS)) $(if $(TABLES),--table-kills $(TABLES)) $(if $(WRITERS),--writer-seconds $(WRITERS)) $(if $(CONTROL),--control-kills $(CONTROL)) $(if $(SEED),--seed $(SEED))
