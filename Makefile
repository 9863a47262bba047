# Everything that people do here: `make help` lists it. Each target makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Asked for each command (not `:=`): `make java` may install one.
export JAVA_HOME = $(shell $(PYTHON) src/ottla/cli/processes.py)
# More workers than cores: much of the suite's time is waiting for clients, and the smallest machine we care for has two cores.
PYTEST := $(BIN)/python -m pytest -p tests.support.forked_workers --workers 5
TRIAL := $(BIN)/python -m trials

# Compiled before the tests start: in a new checkout, each of the workers would compile them, at the same time.
KERNELS := columnar.preloading log.compiled.cleaning groups.log.arrow.loading log.compiled.record_checks

.PHONY: all help setup java demo test quick install-test check format bench sim soak fuzz kill-tests sharing whatif-trials migration-trials scenarios mutants incidents accuracy docs changelog

# The suite holds the linters, the types and the import contracts too, so `make` runs each check once.
all: test

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.made

$(VENV)/.made: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 2))' || { echo 'Ottla needs Python 3.11.2 or later: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo 'No virtual environment could be made: on Debian, install python3-venv.' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,demo,bench]'
	@touch $@

java:
	@sh scripts/ensure-packages.sh java

demo: setup java ## the main job on real input
	$(BIN)/ottla demo

# Without a Java or a Chromium, the tests that need one are skipped, each with its reason.
test: setup ## the whole suite; ARGS="tests/unit -k batch" for a part of it
	@sh scripts/ensure-packages.sh java chromium || echo 'Tests that need what is missing are skipped.' >&2
	@{ $(BIN)/python -m tests.support.reference.class_archives || echo 'Without class archives, the JVMs of tests start slowly.' >&2; } & \
	for module in $(KERNELS); do $(BIN)/python -c "from ottla.$$module import load_kernels; load_kernels()" & done; wait
	$(PYTEST) $(ARGS)

# Surfaces of packages, scenarios, examples, docs, linters: two minutes on two cores. No Java, no browser, no trial.
quick: setup ## the quick part of the suite: no Java, no browser, no trials
	$(BIN)/python -m pytest -p tests.support.forked_workers --workers 2 -m 'not kafka and not spark' --ignore tests/unit/protocol/wire $(ARGS) \
		tests/unit tests/log tests/scenarios tests/conformance tests/examples tests/test_docs.py tests/test_imports.py tests/test_install.py tests/test_tidy.py

# The wheel in fresh virtual environments, a row each; ROW="3.12 spark" for some of them.
install-test: setup ## the wheel in fresh environments; ROW="3.12 spark" for some
	$(BIN)/python scripts/install_test.py --row '$(ROW)'

check: setup ## linters, types and import contracts alone, in seconds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## fix what the linters can, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup java ## every benchmark, beside Apache Kafka
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/suite.py --rounds 3
	$(BIN)/python benchmarks/join.py
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/wire.py
	$(BIN)/python benchmarks/flush.py
	$(BIN)/python benchmarks/restart.py
	$(BIN)/python benchmarks/load.py --rounds 1
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/consumer.py
	$(BIN)/python benchmarks/spark.py --rounds 3
	$(BIN)/python benchmarks/member_mode.py --rounds 3
	$(BIN)/python benchmarks/diagnosis_spark.py
	$(BIN)/python benchmarks/sink.py --rounds 3
	$(BIN)/python benchmarks/migrate.py --rounds 3
	$(BIN)/python benchmarks/cleaner.py
	$(BIN)/python benchmarks/memory.py --rounds 1
	$(BIN)/python benchmarks/attacks.py --rounds 1
	$(BIN)/python benchmarks/security.py --rounds 3
	$(BIN)/python benchmarks/groups.py --rounds 3
	$(BIN)/python benchmarks/transactions.py
	$(BIN)/python benchmarks/assignors.py
	$(BIN)/python benchmarks/report_page.py
	$(BIN)/python benchmarks/diagnosis_logs.py

# Ten minutes of chaos with real clients on Ottla and ten on Apache Kafka, SEEDS=1,2,3 for more; five minutes with hostile neighbours; then more of what tests do in seconds.
soak: setup java ## minutes of chaos with real clients; SEEDS=1,2,3
	OTTLA_CHAOS_SECONDS=600 OTTLA_CHAOS_SEEDS=$(or $(SEEDS),1) $(BIN)/python -m pytest -s tests/clients/test_chaos.py
	$(TRIAL) chaos --broker apache-kafka --seconds 600 --seed $(or $(SEEDS),1)
	OTTLA_HOSTILE_SECONDS=300 OTTLA_HOSTILE_SCALE=1 $(BIN)/python -m pytest -s tests/clients/test_hostile_neighbours.py
	OTTLA_GROUP_SCRIPTS=300 $(PYTEST) tests/kafka/test_group_scripts.py
	OTTLA_GROUP_SEEDS=5000 OTTLA_CRASH_SEEDS=5000 OTTLA_POWER_SEEDS=500 $(PYTEST) tests/simulation/test_groups.py tests/simulation/test_storage_crashes.py tests/simulation/test_broker_crashes.py
	OTTLA_CONSUMER_SEEDS=2000 $(PYTEST) tests/simulation/test_consumer_membership.py
	$(PYTEST) --hypothesis-profile=soak tests/properties

# A night of hostile bytes against a broker process that is killed and started again; SECONDS=600 for another time, SEED=1 for one seed.
fuzz: setup ## hostile bytes for a night; SECONDS=600 SEED=1
	$(TRIAL) fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

# Three worlds, and in each something of a streaming query is killed twenty times: driver, worker or broker. SEEDS=1-5, RUNS=5 in each.
kill-tests: setup java ## streaming queries that are killed; SEEDS=1-5 MODE=member BROKER=apache-kafka
	$(TRIAL) kills --runs $(or $(RUNS),20) --seed $(or $(SEEDS),1-3) --mode $(or $(MODE),commit) --broker $(or $(BROKER),ottla)

# Takeovers, visits of a plain consumer, and rolling restarts, five of each; ROUNDS=20, BROKER=apache-kafka.
sharing: setup java ## streaming queries that share a group; ROUNDS=20 BROKER=apache-kafka
	$(TRIAL) sharing --rounds $(or $(ROUNDS),5) --broker $(or $(BROKER),ottla)

# `ottla migrate` of five million records, from 24 to 6 partitions and from 6 to 24, killed twice while a producer writes. RECORDS=200000, SEEDS=1,2,3, BROKER=apache-kafka.
migration-trials: setup java ## migrations that are killed; RECORDS=200000 BROKER=apache-kafka
	for shape in '--from 24 --to 6' '--from 6 --to 24'; do $(TRIAL) migration $$shape --records $(or $(RECORDS),5000000) --kills 2 --follow --broker $(or $(BROKER),ottla) --seed $(or $(SEEDS),1) || exit 1; done

# The table in docs/whatif.md; CASES="freeze-java slow-java" for some of them, without the table.
whatif-trials: setup java ## what-if checked by experiment; CASES="freeze-java"
	$(TRIAL) whatif $(CASES)

# Without SEED: the first hundred seeds. MEMBERS=consumer: the membership of ottla.Consumer instead of scripted members.
sim: setup ## simulated groups; SEED=123 for one, with its trace; MEMBERS=consumer
	$(TRIAL) simulation $(if $(MEMBERS),--members $(MEMBERS)) $(if $(SEED),--seed $(SEED))

# Real clients on real brokers, about twenty minutes. An incident whose group does not become stable is left out and printed.
incidents: setup java ## record the incidents that the diagnosis is measured with
	$(TRIAL) incidents --broker apache-kafka
	$(TRIAL) incidents --broker ottla

accuracy: setup ## measure the diagnosis on the recorded incidents
	$(TRIAL) accuracy --write

# Small faults in a package's source, one at a time, and whether its tests notice: docs/HACKING.md has the scores. SEED=2 for another sample.
mutants: setup ## small faults in the source that tests should notice; PACKAGE=client COUNT=60 SEED=1
	@$(BIN)/python -c 'import cosmic_ray, coverage' 2> /dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[mutants]'
	$(BIN)/python scripts/mutants.py $(or $(PACKAGE),client) --count $(or $(COUNT),60) --seed $(or $(SEED),1)

# Read the diff before you commit it.
scenarios: setup ## write the expected effects of all scenarios again
	OTTLA_REWRITE_SCENARIOS=1 $(BIN)/python -m pytest tests/scenarios

# Writes the pages that are made from the code: cli, apis, settings, states, conformance.
docs: setup ## write the pages that are made from the code
	$(BIN)/python scripts/make_docs.py

changelog: setup ## collect changes/ into CHANGELOG.md; VERSION=0.2.0
	$(BIN)/towncrier build --yes --version $(VERSION)
