# Everything that people do here. `make demo` and `make test` make what they need; nothing else has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export JAVA_HOME = $(shell sh scripts/java-home.sh)
# Four workers: much of the suite's time is waiting for clients, and the smallest machine we care for has two cores.
PYTEST := $(BIN)/python -m pytest -n 4

# Compiled before the tests start: in a new checkout, each of the workers would compile all of it, at the same time.
KERNELS := warm cleaning group_loading

.PHONY: all setup java demo test install-test check bench sim soak fuzz kill-tests scenarios docs

all: check test

setup: $(VENV)/.made

$(VENV)/.made: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'Ottla needs Python 3.11 or later: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo 'No virtual environment could be made: on Debian, install python3-venv.' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,demo,bench]'
	@touch $@

java:
	@sh scripts/ensure-java.sh

demo: setup java
	$(BIN)/ottla demo

# Without a Java, the tests that need one are skipped, each with its reason.
test: setup
	@sh scripts/ensure-java.sh || echo 'Tests that need Java are skipped.' >&2
	@for module in $(KERNELS); do $(BIN)/python -c "from ottla.columnar.$$module import warm_up; warm_up()" & done; wait
	$(PYTEST) $(ARGS)

# The wheel in fresh virtual environments, a row each; ROW="3.12 spark" for some of them.
install-test: setup
	$(BIN)/python scripts/install_test.py --row '$(ROW)'

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup java
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/join.py
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/wire.py
	$(BIN)/python benchmarks/flush.py
	$(BIN)/python benchmarks/restart.py
	$(BIN)/python benchmarks/load.py --rounds 1
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/spark.py --rounds 3
	$(BIN)/python benchmarks/sink.py --rounds 3
	$(BIN)/python benchmarks/cleaner.py
	$(BIN)/python benchmarks/memory.py --rounds 1
	$(BIN)/python benchmarks/attacks.py --rounds 1
	$(BIN)/python benchmarks/groups.py --rounds 3

# Ten minutes of chaos with real clients, SEEDS=1,2,3 for more; then five minutes with hostile neighbours.
soak: setup
	OTTLA_CHAOS_SECONDS=600 OTTLA_CHAOS_SEEDS=$(or $(SEEDS),1) $(BIN)/python -m pytest -s tests/clients/test_chaos.py
	OTTLA_HOSTILE_SECONDS=300 OTTLA_HOSTILE_SCALE=1 $(BIN)/python -m pytest -s tests/clients/test_hostile_neighbours.py

# A night of hostile bytes against a broker process that is killed and started again; SECONDS=600 SEED=1 for another time.
fuzz: setup
	$(BIN)/python -m ottla.testing.fuzz.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

# Sixty times something of a streaming query is killed: driver, worker or broker. RUNS=20, SEEDS=1,2,3, BROKER=apache-kafka.
kill-tests: setup java
	$(BIN)/python -m ottla.testing.streams.runs --runs $(or $(RUNS),60) --broker $(or $(BROKER),ottla) $(if $(SEEDS),--seeds $(SEEDS))

# make sim SEED=123 lives through one seed; without SEED, through the first hundred.
sim: setup
	$(BIN)/python -m ottla.testing.simulator $(SEED)

# Writes the expected effects of every scenario anew: read the diff before you commit it.
scenarios: setup
	OTTLA_REWRITE_SCENARIOS=1 $(BIN)/python -m pytest tests/scenarios

# Writes the pages that are made from the code: cli, apis, settings, states, conformance.
docs: setup
	$(BIN)/python scripts/make_docs.py
