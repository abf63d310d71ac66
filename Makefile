# Development, tests and the demonstration. Needs Python 3.11 or later; everything fetched lies in .dev/cache, everything made in .venv and .dev.
PYTHON ?= $(or $(firstword $(foreach one,python3 python3.11 python3.12 python3.13,$(shell $(one) -c 'import sys; sys.version_info >= (3, 11) and print("$(one)")' 2>/dev/null))),python3)
PY := .venv/bin/python
SOURCES := airflow_provider_connect spark_jobs dags tests
SHARED := -n $(or $(JOBS),3)
export AIRFLOW_PROVIDER_CONNECT_CACHE := $(CURDIR)/.dev/cache
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME

.PHONY: help setup demo up down status check test static units coverage contract bench chaos soak steady docs dist hashes ui

help: ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## environment, packages, bytecode, Kafka, class-data archives; skips what is done
	@$(PYTHON) airflow_provider_connect/dev/set_up.py

demo: setup ## a file and a table through Kafka into copies, by four connector DAGs; with JAVA=1 also a table's changes, by Debezium; stays up until Ctrl-C, or ends with ONCE=1
	@$(PY) -m airflow_provider_connect.dev.demo $(if $(filter-out 0,$(ONCE)),--once) $(if $(filter-out 0,$(JAVA)),--java)

up: setup ## the same stack in the background, described by .dev/stack.json; WORKER=FILE for worker properties
	@$(PY) -m airflow_provider_connect.dev.stack up $(WORKER)

down: ## end what make up started
	@$(PY) -m airflow_provider_connect.dev.stack down

status: ## whether the stack is up, and where
	@$(PY) -m airflow_provider_connect.dev.stack status

check: setup ## lint, types, unit tests that start no process
	@$(MAKE) -s -j 2 static units

test: setup ## all that CI runs, in JOBS=3 processes at once, and once more what failed, unless STRICT=1; the seconds of each test are in .dev/durations.json
	@rm -f .dev/coverage.data*
	@CONNECT_TEST_COVERAGE=1 $(PY) -m tests.suite -q --durations=15 --durations-file=.dev/durations.json --max-worker-restart 3 $(SHARED)

static:
	@$(PY) -m ruff check $(SOURCES)
	@$(PY) -m ruff format --check $(SOURCES)
	@$(PY) -m mypy
	@$(PY) -m tests.sizes

units:
	@$(PY) -m pytest -q --no-process $(SHARED) tests/unit

coverage: ## pages in .dev/coverage of what the last make test has run
	@$(PY) -m coverage html -d .dev/coverage --quiet

contract: setup ## replay all that was recorded of a real Kafka Connect, with real runs; S="NAME …" for some sessions
	@$(PY) -m tests.contract.rest $(S)

bench: setup ## race Kafka Connect; W=W1 for one work
	@$(PY) -m tests.benchmark $(if $(W),--work $(W))

chaos: setup ## kill everything everywhere and count records; KILLS=60 of runs, FILES=150 of those with files, lakes and logs, TABLES=60 of those with tables or of their connections, MIRRORS=20 of mirrors, SHARED_KILLS=60 of shared applications, JVMS=40 of Java connectors in runs that stay, WRITERS=300 seconds of writing to tables that runs read, CONTROL=30 of servers, TOPICS=20 topics deleted, CHANGES=120 runs after changes of others to destinations, SEED=of a run to repeat
	@all=0; CONNECT_TEST_CLAIMS=500000 $(PY) -m pytest -q tests/integration/stores/test_long_config_topic.py || all=1; \
	AIRFLOW_DATABASE=sqlite $(PY) -m pytest -q -m "soak or not soak" $(SHARED) tests/integration/airflow || all=1; \
	$(PY) -m tests.e2e.chaos $(if $(KILLS),--kills $(KILLS)) $(if $(FILES),--file-kills $(FILES)) $(if $(TABLES),--table-kills $(TABLES)) $(if $(MIRRORS),--mirror-kills $(MIRRORS)) $(if $(SHARED_KILLS),--shared-kills $(SHARED_KILLS)) $(if $(JVMS),--jvm-kills $(JVMS)) $(if $(WRITERS),--writer-seconds $(WRITERS)) $(if $(CONTROL),--control-kills $(CONTROL)) $(if $(TOPICS),--topic-deletions $(TOPICS)) $(if $(CHANGES),--changes $(CHANGES)) $(if $(SEED),--seed $(SEED)) || all=1; \
	exit $$all

soak: export SEED := $(or $(SEED),$(strip $(shell od -An -N2 -tu2 /dev/urandom)))
soak: setup ## what takes long: random storms, clients of others, outages of minutes, tables of ROWS=20000 random rows, and make test's tests in a random order; SEED=of a run to repeat
	@echo SEED=$(SEED)
	@all=0; $(PY) -m pytest -q -m "soak or hypothesis" --timeout 1500 --hypothesis-seed $(SEED) --ignore tests/integration/worker/test_jdbc_fuzz.py $(SHARED) || all=1; \
	FUZZ_ROWS=$(or $(ROWS),20000) $(PY) -m pytest -q -m "soak or not soak" --timeout 7200 tests/integration/worker/test_jdbc_fuzz.py || all=1; \
	$(PY) -m pytest -q --shuffle $(SEED) $(SHARED) || all=1; \
	exit $$all

steady: setup ## thirty connectors in one shared application for SECONDS=600, with trouble of every kind; counts records, and measures how processes grow; SEED=of a run to repeat
	@$(PY) -m tests.e2e.steady $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

docs: export NO_MKDOCS_2_WARNING := 1
docs: setup ## the documentation as a site with a search in .dev/site/html; a dead link or a page outside of the navigation ends it; SERVE=1 serves it
	@$(PY) -m venv .dev/site/venv && .venv/bin/uv pip install -q --python .dev/site/venv/bin/python --require-hashes -r requirements/docs.txt
	@$(PY) -m tests.site && .dev/site/venv/bin/mkdocs build --strict --quiet
	@$(if $(filter-out 0,$(SERVE)),$(PY) -m http.server --bind 127.0.0.1 --directory .dev/site/html $(or $(PORT),8000),echo .dev/site/html/index.html)

ui: ## check and build the page's bundle; needs Node.js, which nothing else does
	@cd ui && npm ci --no-audit --no-fund && npm run --silent build

# What users install: all extras but those that constraints.txt does not pin (openlineage) and that tests need.
EXTRAS := airflow client dev filesystem frames http jdbc lake mssql mysql oracle registry rest sftp spark sql standalone
dist: setup ## wheel and sdist in dist/, with a CycloneDX SBOM of the pinned requirements; PROJECT_URL= the repository's address for links on a package index
	@$(PY) -m venv .dev/dist/venv && .venv/bin/uv pip install -q --python .dev/dist/venv/bin/python --require-hashes -r requirements/bom.txt
	@.venv/bin/uv build --quiet --clear --no-create-gitignore --python $(PY) --build-constraints requirements/build.txt --require-hashes --out-dir dist; code=$$?; rm -rf *.egg-info; exit $$code
	@rm -f .dev/dist/requirements.* && $(HASHES) $(addprefix --extra ,$(EXTRAS)) setup.cfg --output-file .dev/dist/requirements.txt
	@.dev/dist/venv/bin/cyclonedx-py requirements --output-reproducible --output-file .dev/dist/requirements.json .dev/dist/requirements.txt
	@$(PY) -m tests.bom .dev/dist/requirements.json dist/*.whl

HASHES := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --constraint constraints.txt
hashes: setup ## requirements of the image, make docs and make dist with the hash of every file, after a change of setup.cfg or constraints.txt
	@echo setuptools | $(HASHES) - --output-file requirements/build.txt
	@echo mkdocs-material | $(filter-out --constraint constraints.txt,$(HASHES)) - --output-file requirements/docs.txt
	@echo cyclonedx-bom | $(filter-out --constraint constraints.txt,$(HASHES)) - --output-file requirements/bom.txt
	@printf 'asyncpg\npsycopg2-binary\nsetuptools\n' | $(HASHES) --extra airflow --extra jdbc --extra mysql --extra filesystem --extra sftp --extra lake --extra registry --extra sql setup.cfg - --output-file requirements/image.txt
