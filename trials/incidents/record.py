"""Make incidents on a real broker and write them as test data: `python -m ottla.testing.incidents.record apache-kafka|ottla`.

Ordinary incidents run at the same time, each with a group of its own; then come those that happen to all groups of a broker. An incident
whose group did not become stable is left out and printed.
"""

import argparse
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.table import ACTIONS, OWN_JVM
from ottla.testing.incidents.clusters import IncidentCluster, KafkaCluster, OttlaCluster
from ottla.testing.incidents.group_run import GroupRun, NotStable, Plan
from ottla.testing.incidents.labels import Incident, halved
from ottla.testing.incidents.plan import BROKER_RESTART, JAVA, STORE_ERROR, plans
from ottla.testing.incidents.recording import lines_by_group, write_run
from ottla.testing.incidents.waves import NO_SIZE_MAX, SIZE_MAX, fail_to_store, restart_broker, start_groups, wait_until_loaded
from ottla.testing.incidents.world import World
from ottla.testing.reference.apache_kafka import ARTIFACTS, QUICK_JVM_OPTIONS, VERSION
from ottla.testing.reference.class_archives import archive_options, kafka_archive
from ottla.testing.reference.maven import fetch_jars, report_progress

CLUSTERS: dict[str, type[IncidentCluster]] = {"apache-kafka": KafkaCluster, "ottla": OttlaCluster}
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
            print(f"{len(self.incidents):4d} {incident.id} {incident.cause} {incident.action}", file=sys.stderr, flush=True)  # noqa: T201

    def _fail(self, what: str, error: Exception) -> None:
        with self._lock:
            self.failed.append(f"{what}: {error!r}")
            print(f"FAILED {what}: {error!r}", file=sys.stderr, flush=True)  # noqa: T201


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


def main(arguments: Sequence[str]) -> int:
    """Record one run; the exit status is 1 when an incident failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cluster", choices=list(CLUSTERS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--action", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many groups at the same time")
    parser.add_argument("--delay-ms", type=int, default=0, help="group.initial.rebalance.delay.ms")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--cache", type=Path, default=Path(".cache"))
    given = parser.parse_args(arguments)
    run = f"{given.cluster}-{given.seed}"
    directory = Path(tempfile.mkdtemp(prefix="incidents-"))
    try:
        return _record_into(given, run, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _record_into(given: argparse.Namespace, run: str, directory: Path) -> int:
    cache = given.cache.resolve()
    kafka_jars = cache / f"apache-kafka-{VERSION}"
    fetch_jars(ARTIFACTS, kafka_jars, what=f"Apache Kafka {VERSION}", report=report_progress)
    cluster = CLUSTERS[given.cluster](directory, cache, delay_ms=given.delay_ms)
    options = (*QUICK_JVM_OPTIONS[1:], *archive_options(kafka_archive(cache)))
    with cluster, World(cluster.servers, directory, class_path=f"{kafka_jars}/*", jvm_options=options) as world:
        recorder = Recorder(cluster, world, run=run)
        record(recorder, plans(given.cluster, given.seed, actions=given.action), at_once=given.at_once)
    incidents = halved(sorted(recorder.incidents, key=lambda each: each.id))
    write_run(
        given.output / run,
        incidents=incidents,
        broker_log=cluster.log_path,
        data_directory=cluster.data_directory,
        client_logs=client_logs(world, incidents),
        events=cluster.event_lines(),
        secrets={str(directory): "/data", str(cache): "/cache", sys.prefix: "/venv", sys.base_prefix: "/python", str(Path.cwd()): "/ottla"},
    )
    print(f"{len(incidents)} incidents in {given.output / run}, {len(recorder.failed)} failed", file=sys.stderr)  # noqa: T201
    return 1 if recorder.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
