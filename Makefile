# One command sets up, one checks, the same as CI. `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
INSTALLED := $(VENV)/.installed
UV := $(BIN)/uv --quiet pip
VERSION_CHECK := import sys; sys.version_info >= (3, 11) or \
	sys.exit("headgate needs Python 3.11 or newer; $(PYTHON) is %d.%d (choose with PYTHON=)" % sys.version_info[:2])

# Options of the full run stay here and out of pyproject.toml, so that running one test by hand is plain.
TWO_AT_ONCE := -n 2 --dist loadfile --no-loadscope-reorder
# Branches are measured only where no threads are: CPython 3.11 ends a thread that starts while another sets its tracer.
CORE_TESTS := tests/property tests/scenario tests/step tests/unit
CORE_FLAGS := $(TWO_AT_ONCE) $(CORE_TESTS) --cov=headgate/core --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100
PYTEST_FLAGS := $(TWO_AT_ONCE) $(CORE_TESTS:%=--ignore=%) --durations=40 --durations-min=5 --times build/durations.json

# uv compiles nothing when it installs. Where Python may not keep what it has compiled either, each of the hundreds of
# processes of a run compiles all of PySpark and pandas anew: a third of the time of the tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup services demo example-etl example-sensors example-exercise ui screenshots test test-fast prove check bench bench-quick lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Make .venv from the lock file, and see that Java is there
	@sh scripts/ensure_java.sh

# Two stamps: a new lock file makes .venv anew, an edit of pyproject.toml only installs headgate again.
# Each is touched last, so an interrupted install is repeated. The lock file names every package, so there is nothing to
# resolve: with --no-deps a new release of a package that is asked for with an extra cannot come in between. pip installs
# uv as the lock file has it; uv installs the rest in a quarter of pip's time, and builds PySpark's wheel once a machine.
$(LOCKED): requirements.lock
	@$(PYTHON) -c '$(VERSION_CHECK)'
	$(PYTHON) -m venv --clear $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.txt
	$(BIN)/python -m pip --quiet --disable-pip-version-check install --no-deps --require-hashes -r $(VENV)/uv.txt
	$(UV) install --python $(BIN)/python --no-deps --require-hashes -r requirements.lock
	$(UV) check --python $(BIN)/python
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	$(UV) install --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

services: ## Install the servers that tests and examples start
	@sh scripts/ensure_services.sh

demo: setup ## Run the demo
	@$(BIN)/headgate demo

# Options of an example: make example-etl ARGS="--rows 100000 --keep /tmp/etl"
example-etl: setup ## Run the example: orders to sums of windows, Kafka to Kafka
	@sh scripts/ensure_services.sh kafka
	@$(BIN)/python -m examples.exactly_once_etl.run $(ARGS)

example-sensors: setup ## Run the example: readings to alerts, with keyed state and timers
	@sh scripts/ensure_services.sh kafka
	@$(BIN)/python -m examples.fault_tolerant_sensors.run $(ARGS)

example-exercise: setup ## Run the first exercise: payments to balances, Kafka to Kafka
	@sh scripts/ensure_services.sh kafka
	@$(BIN)/python -m examples.exercise_kafka_to_kafka.run $(ARGS)

# What it writes is committed, so that nobody else needs node: a test sees that it was built from these sources.
ui: setup ## Build the web UI into headgate/serve/ui (needs node 20 and npm)
	@$(BIN)/python -m scripts.ui_contract
	@cd ui && npm ci --silent && npx tsc --noEmit && node build.mjs

# Some of them: make screenshots ARGS="history dark-400"
screenshots: setup ## Make pictures of every page of the web UI in build/screenshots
	@sh scripts/ensure_services.sh chromium
	@$(BIN)/python -m tests.ui.screenshots $(ARGS)

check: setup ## Lint, formatting and types
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/mypy --strict --no-error-summary headgate tests services $(wildcard bench examples)

test-fast: setup ## Run the tests that need no JVM and no server, in about a minute
	@$(BIN)/pytest $(TWO_AT_ONCE) -q -m "not heavy" --hypothesis-profile quick

# The archives of classes are made while mypy works, which has one core.
test: ## Run check, then every test
	@$(MAKE) --no-print-directory -j 2 setup services
	@$(BIN)/python -m tests.classes & \
	$(MAKE) --no-print-directory check && wait $$!
	@$(BIN)/pytest $(CORE_FLAGS)
	@$(BIN)/pytest $(PYTEST_FLAGS)

# The long campaigns, some hours in all; each writes its report. One alone: make prove PROOFS=zombies-totals
# A run that was broken off goes on: what is proven of these very sources is not proven again, but with FRESH=1.
PROOFS ?= sim long shapes kills-transactions kills-others zombies-transactions zombies-others zombies-totals soak
REPORTS := docs/reports
PROVEN = build/prove/$(shell git ls-files -s headgate java services tests requirements.lock | git hash-object --stdin | cut -c1-12)
prove: setup services ## Run the long campaigns and write their reports
	@mkdir -p $(PROVEN)
	@set -e; for proof in $(PROOFS); do \
		if [ -e $(PROVEN)/$$proof.done ] && [ -z "$(FRESH)" ]; then echo "== $$proof: proven before, of the same sources"; continue; fi; \
		echo "== $$proof"; $(MAKE) --no-print-directory prove-$$proof; touch $(PROVEN)/$$proof.done; \
	done

prove-sim:
	@$(BIN)/headgate sim --seeds 0:100000 --json > $(REPORTS)/sim.json; cat $(REPORTS)/sim.json
prove-long:
	@$(BIN)/pytest -m long --long --kills 4 --junitxml build/prove/long.xml
	@$(BIN)/python -m tests.proven $(REPORTS)/long.md build/prove/long.xml
prove-shapes:
	@$(BIN)/pytest tests/spark/test_kills.py --long --kills 10 --junitxml build/prove/shapes.xml
	@$(BIN)/pytest tests/connect/kafka/test_cluster.py --kills 4 --junitxml build/prove/cluster.xml
	@$(BIN)/pytest tests/sink tests/connect -k killed_again_and_again --kills 16 --junitxml build/prove/commits.xml
	@$(BIN)/python -m tests.proven $(REPORTS)/shapes.md build/prove/shapes.xml build/prove/cluster.xml build/prove/commits.xml
prove-kills-%:
	@$(BIN)/python -m tests.kills --group $* --rounds 20 --report $(REPORTS)
prove-zombies-%:
	@$(BIN)/python -m tests.kills --group $* --rounds 20 --zombies --report $(REPORTS)
prove-soak:
	@$(BIN)/python -m tests.soak --minutes 60 --report $(REPORTS)

bench: setup services ## Measure Headgate and its peers side by side, some hours; what is finished is kept
	@$(BIN)/python -m bench

bench-quick: setup ## The same in short: few cases, small sizes, one round
	@sh scripts/ensure_services.sh kafka
	@$(BIN)/python -m bench --quick --fresh

lock: $(LOCKED) ## Write requirements.lock anew from pyproject.toml (UPGRADE=1 takes newer releases)
	@$(UV) compile --universal --python-version 3.11 --generate-hashes --group dev --all-extras \
		$(if $(UPGRADE),--upgrade) \
		--custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) build dist ui/node_modules headgate.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	find headgate tests services bench examples -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
