"""Incidents of groups with a known cause, made on a real broker with real clients and recorded as test data.

Ordinary incidents run at the same time, each with a group of its own; then come those that happen to all groups of a broker. An incident
whose group did not become stable is left out and printed.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

from ottla.history.sources.evidence import Cause
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import add_broker_option
from trials.incidents.actions import ACTIONS, OWN_JVM, set_up
from trials.incidents.corpus import Incident, halved, lines_by_group, secrets_of, write_run
from trials.incidents.group_run import GroupRun, NotStable, Plan
from trials.incidents.handles import coordinator_of
from trials.incidents.plan import BROKER_RESTART, JAVA, STORE_ERROR, plans
from trials.incidents.world import IncidentCluster, KafkaCluster, OttlaCluster, World, open_world

OFFSETS_TOPIC = "__consumer_offsets"
SMALL_BYTES = 420
"""Less than the record of a group with two or more members, more than a commit of one partition."""
LARGE_BYTES = 1_048_588
SIZE_MAX, NO_SIZE_MAX = 2, (1 << 31) - 1
ERROR_S, AFTER_ERROR_S = 3, 5
RECOVERY_S = 14
LOADING_SECONDS_MAX = 60
NOT_YET = frozenset((14, 15, 16))  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR


def start_groups(runs: Sequence[GroupRun]) -> list[GroupRun]:
    """Set up all groups, and wait until the last is stable; return those that are."""
    with ThreadPoolExecutor(len(runs)) as pool:
        are_stable = list(pool.map(_set_up, runs))
    return [run for run, is_stable in zip(runs, are_stable, strict=True) if is_stable]


def _set_up(run: GroupRun) -> bool:
    positions = range(len(run.plan.clients))
    try:
        set_up(run, positions[:-1] if run.plan.cause == Cause.STORE_ERROR and len(positions) > 1 else positions)
    except NotStable:
        return False
    return True


def fail_to_store(runs: Sequence[GroupRun]) -> None:
    """One member more joins each group while its new assignment is too large for the offsets topic; a client that gives up may leave."""
    world = runs[0].world
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run.caused(Cause.STORE_ERROR, also={Cause.JOIN_NEW, Cause.LEAVE_CLOSE}))
        world.set_topic_config(OFFSETS_TOPIC, "max.message.bytes", str(SMALL_BYTES))
        for run in runs:
            run.start(len(run.plan.clients) - 1)
        time.sleep(ERROR_S)
        world.set_topic_config(OFFSETS_TOPIC, "max.message.bytes", str(LARGE_BYTES))
        time.sleep(AFTER_ERROR_S)


def restart_broker(runs: Sequence[GroupRun], restart: Callable[[], None]) -> None:
    """The broker restarts with group.max.size = SIZE_MAX: larger groups must shrink, the others are loaded again."""
    with ExitStack() as stack:
        for run in runs:
            is_capacity = run.plan.cause == Cause.CAPACITY
            stack.enter_context(run.caused(run.plan.cause, is_certain=is_capacity))
        restart()
        time.sleep(RECOVERY_S)


def wait_until_loaded(servers: str, group: str) -> None:
    """Return when the group's coordinator has loaded it. Raises TimeoutError."""
    deadline = time.monotonic() + LOADING_SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(OSError, Disconnected), RawClient(coordinator_of(group, servers)) as client:
            if client.call(ApiKey.DESCRIBE_GROUPS, 0, groups=[group]).groups[0].error_code not in NOT_YET:
                return
        time.sleep(0.1)
    raise TimeoutError(f"the coordinator of {group} has not loaded it")


NAME = "incidents"
OUTPUT = Path("tests/data/diagnosis")
AT_ONCE = 8


class Recorder:
    """One run: makes the incidents and keeps their labels and logs."""

    def __init__(self, cluster: IncidentCluster, world: World, *, run: str) -> None:
        self._cluster = cluster
        self._world = world
        self._run = run
        self._lock = threading.Lock()
        self.incidents: list[Incident] = []
        self.failed: list[str] = []

    def run_alone(self, plan: Plan) -> None:
        """One ordinary incident, from its first member to its end."""
        run = self._new(plan)
        with ExitStack() as stack:
            if plan.action in OWN_JVM and plan.actor_client == JAVA:
                stack.enter_context(self._world.jvm())
            stack.callback(run.kill_all)
            self._try(run, lambda: ACTIONS[plan.action](run))

    def run_wave(self, planned: Sequence[Plan], act: Callable[[Sequence[GroupRun]], None]) -> None:
        """Incidents that happen to all their groups at once."""
        runs = [self._new(plan) for plan in planned]
        with ExitStack() as stack:
            for run in runs:
                stack.callback(run.kill_all)
            try:
                stable = start_groups(runs)
                act(stable)
            except Exception as error:  # noqa: BLE001 - the other incidents are of use without this wave
                self._fail(f"wave of {planned[0].action}", error)
                return
            for run in runs:
                if run in stable:
                    self._try(run, lambda: None)
                else:
                    self._fail(str(run.plan), NotStable())

    def move_coordinators(self, runs: Sequence[GroupRun]) -> None:
        """Ottla's cluster gives each group another coordinator."""
        assert isinstance(self._cluster, OttlaCluster)
        cluster = self._cluster
        restart_broker(runs, lambda: cluster.move_coordinators([run.group for run in runs]))

    def restart(self, runs: Sequence[GroupRun]) -> None:
        """The broker restarts with a smaller group.max.size."""

        def restart_and_wait() -> None:
            self._cluster.restart(group_max_size=str(SIZE_MAX))
            for run in runs:
                wait_until_loaded(self._cluster.servers, run.group)

        restart_broker(runs, restart_and_wait)

    def allow_large_groups(self) -> None:
        """The broker restarts with Kafka's own group.max.size."""
        self._cluster.restart(group_max_size=str(NO_SIZE_MAX))

    def _new(self, plan: Plan) -> GroupRun:
        return GroupRun(plan, self._world, run=self._run, cluster=self._cluster.kind)

    def _try(self, run: GroupRun, act: Callable[[], None]) -> None:
        try:
            act()
            incident = run.finish()
        except Exception as error:  # noqa: BLE001 - one that failed is left out and printed
            self._fail(str(run.plan), error)
            return
        with self._lock:
            self.incidents.append(incident)
            print(f"{len(self.incidents):4d} {incident.id} {incident.cause} {incident.action}", file=sys.stderr, flush=True)

    def _fail(self, what: str, error: Exception) -> None:
        with self._lock:
            self.failed.append(f"{what}: {error!r}")
            print(f"FAILED {what}: {error!r}", file=sys.stderr, flush=True)


def record(recorder: Recorder, planned: Iterable[Plan], *, at_once: int) -> None:
    """Make all incidents: those of a restart while the broker has few partitions to load, then the ordinary ones, then store errors."""
    alone = [plan for plan in planned if plan.action in ACTIONS]
    errors = [plan for plan in planned if plan.action == STORE_ERROR]
    restarts = [plan for plan in planned if plan.action == BROKER_RESTART]
    moves = [plan for plan in restarts if plan.cause == Cause.COORDINATOR_MOVE]
    if moves and moves[0].id.startswith("o"):
        recorder.run_wave(moves[::2], recorder.move_coordinators)
        restarts = [plan for plan in restarts if plan not in moves[::2]]
    if restarts:
        recorder.run_wave(restarts, recorder.restart)
        recorder.allow_large_groups()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(recorder.run_alone, alone))
    if errors:
        recorder.run_wave(errors, fail_to_store)


def client_logs(world: World, incidents: Iterable[Incident]) -> dict[str, str]:
    """The logs of clients as INCIDENT/NAME; the lines of the JVM that many share go to their incidents."""
    shared = lines_by_group(world.shared_java_log.read_text(errors="replace").splitlines(keepends=True))
    logs: dict[str, str] = {}
    for incident in incidents:
        for path in sorted((world.directory / "clients" / incident.id).glob("*.log")):
            logs[f"{incident.id}/{path.name}"] = path.read_text(errors="replace")
        if incident.group in shared:
            logs[f"{incident.id}/application.java.log"] = "".join(shared[incident.group])
    return {name: text for name, text in logs.items() if text}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which broker, which incidents, and where they go."""
    add_broker_option(parser, default=KafkaCluster.kind)
    add_seed_option(parser, "1", "a corpus each")
    parser.add_argument("--action", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many groups at the same time")
    parser.add_argument("--delay-ms", type=int, default=0, help="group.initial.rebalance.delay.ms")
    parser.add_argument("--output", type=Path, default=OUTPUT)


def run(options: argparse.Namespace, results: Results) -> None:
    """Record the incidents of each seed."""
    results.run_seeds(options.seed, lambda seed, directory: record_into(options, seed, directory))


def record_into(options: argparse.Namespace, seed: int, directory: Path) -> Outcome:
    """Make the incidents of a seed in `directory`, and write what is kept of them; those that failed are wrong."""
    name = f"{options.broker}-{seed}"
    with open_world(options.broker, directory, delay_ms=options.delay_ms) as (cluster, world):
        recorder = Recorder(cluster, world, run=name)
        record(recorder, plans(options.broker, seed, actions=options.action), at_once=options.at_once)
    incidents = halved(sorted(recorder.incidents, key=lambda incident: incident.id))
    write_run(
        options.output / name,
        incidents=incidents,
        broker_log=cluster.log_path,
        data_directory=cluster.data_directory,
        client_logs=client_logs(world, incidents),
        events=cluster.event_lines(),
        secrets=secrets_of(directory),
    )
    return Outcome(recorder.failed, f"{len(incidents)} incidents in {options.output / name}")
