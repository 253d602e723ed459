# Every command of the repository. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
DOCS := .cache/docs
LOCKED := $(CI)
CONSTRAINTS := $(if $(LOCKED),constraints.txt)
JAVA_SOURCES := $(shell find jvm -type f 2>/dev/null)

.PHONY: help
help: ## list the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## make .venv, fetch jars, build the Java operators, record their classes (nothing to do the second time)

$(STAMP): pyproject.toml ds_dagster/jars.lock.json ds_dagster/local/kinesalite/package-lock.json $(JAVA_SOURCES) $(CONSTRAINTS)
	@scripts/venv.sh $(VENV)
	@echo "installing Python packages (about 600 MB the first time)" >&2
	@scripts/packages.sh $(VENV) $(addprefix -c ,$(CONSTRAINTS))
	@$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|moto|mypyc?)/' $(VENV)/lib & compiling=$$!; \
		$(BIN)/python scripts/prepare.py; prepared=$$?; wait $$compiling; exit $$prepared
	@touch $@

.PHONY: check
check: setup ## format, lint, types and the fast tests, in a minute and a half
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python scripts/tiers.py fast

.PHONY: test
test: setup ## all tests but the long ones, tier after tier
	@$(BIN)/python scripts/tiers.py

.PHONY: test-long
test-long: setup ## the tests that take minutes each
	@$(BIN)/python scripts/tiers.py long

.PHONY: soak
soak: setup ## an hour each (DS_SOAK_MINUTES): random histories against oracles; the example killed, paused and loaded; then kills on a cluster
	@$(BIN)/python scripts/soak_oracles.py
	@$(BIN)/python -m benchmarks soak
	@$(BIN)/python -m pytest -q -m slow tests/e2e/cluster/test_prepared_tasks.py tests/e2e/cluster/test_spark_cluster.py \
		tests/e2e/changing/test_chaos_versions.py

.PHONY: bench-guard
bench-guard: setup ## has this work tree made anything slower? AGAINST=commit ONLY=filter,json
	@$(BIN)/python -m benchmarks guard --against $(or $(AGAINST),HEAD) $(if $(ONLY),--only $(ONLY))

.PHONY: bench
bench: setup ## ours against hand-written PySpark, as ratios
	@$(BIN)/python -m benchmarks

.PHONY: bench-cluster
bench-cluster: setup ## a batch by rows, partitions, groups and executors, and a model of many nodes
	@$(BIN)/python -m benchmarks --only sizing,sizing/cluster
	@$(BIN)/python -m benchmarks.scale_model benchmarks/out/sizing_cluster.json

.PHONY: nexmark
nexmark: setup ## the Nexmark queries: compared with DuckDB, and their speed (NEXMARK='--only q4 --speed-events 0')
	@$(BIN)/python -m benchmarks.nexmark $(NEXMARK)

.PHONY: nexmark-peers
nexmark-peers: setup ## the same, and PyFlink where it is installed
	@$(BIN)/python -m benchmarks.nexmark --peers $(NEXMARK)

.PHONY: demo
demo: setup ## the example pipelines on real local servers, under dagster dev; Ctrl-C ends it all
	@$(BIN)/ds demo

.PHONY: demo-check
demo-check: setup ## the same, compared with the expected rows, without the UI staying up
	@$(BIN)/ds demo --check

.PHONY: up
up: setup ## start the local servers
	@$(BIN)/ds up

.PHONY: down
down: setup ## stop the local servers
	@$(BIN)/ds down

.PHONY: lock
lock: setup ## write constraints.txt, the versions that continuous integration installs, from .venv
	@$(BIN)/python -m pip freeze --exclude-editable | awk '/==/ {print $$1 "; python_version >= \"3.11\""}' >constraints.txt

.PHONY: format
format: setup ## rewrite the files as ruff formats them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: docs
docs: setup ## write the pages of docs/ that are made from the code
	@$(BIN)/python scripts/generate_docs.py

.PHONY: docs-site
docs-site: $(DOCS)/.done ## the documentation as a site in build/site, strictly (DS_DOCS_URL: where it will be)
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict
	@echo "build/site: $(DOCS)/bin/python -m mkdocs serve shows it" >&2

$(DOCS)/.done: pyproject.toml
	@scripts/venv.sh $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

.PHONY: wheel
wheel: ## a wheel in dist/, with the Java operators built in; needs neither .venv nor PySpark
	@scripts/venv.sh .cache/wheel
	@DS_BUILD_JAR=require .cache/wheel/bin/python -m pip wheel --quiet --no-deps --disable-pip-version-check --wheel-dir dist .

.PHONY: clean
clean: ## stop the local servers and remove what was built (not .venv, not the state in .ds)
	@if [ -x $(BIN)/ds ]; then $(BIN)/ds down; fi
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/out
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
