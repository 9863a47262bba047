"""Checks what-if by experiment: `python -m ottla.testing.whatif_trials.experiment [NAME...]`.

Each trial runs with its settings; what-if predicts the rebalances with the changed ones; the trial runs again with those, and both numbers
are compared. The table goes to the document when all trials ran.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ottla.core.diagnosis.rounds.assembly import rounds_of_group
from ottla.core.whatif.prediction import Prediction, predict
from ottla.core.whatif.settings import Settings
from ottla.testing.incidents.clusters import IncidentCluster, KafkaCluster, OttlaCluster
from ottla.testing.incidents.world import World
from ottla.testing.reference.apache_kafka import ARTIFACTS, QUICK_JVM_OPTIONS, VERSION
from ottla.testing.reference.class_archives import archive_options, kafka_archive
from ottla.testing.reference.maven import fetch_jars, report_progress
from ottla.testing.whatif_trials.evidence import evidence_of_run
from ottla.testing.whatif_trials.results import Result, write_table
from ottla.testing.whatif_trials.run import TrialRun
from ottla.testing.whatif_trials.trial import MemberTimes, Trial
from ottla.testing.whatif_trials.trials import KAFKA, OTTLA, TRIALS

CLUSTERS: dict[str, type[IncidentCluster]] = {KAFKA: KafkaCluster, OTTLA: OttlaCluster}
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Experiment:
    """The trials of one cluster."""

    cluster: IncidentCluster
    world: World
    directory: Path

    def check(self, trial: Trial) -> Result:
        """Run, predict, run again. A run that fails is a result too."""
        try:
            first = self._run(trial, trial.times, "before")
            recorded = Settings(heartbeat_interval_ms=trial.times.heartbeat_ms)
            prediction = predict(first.group, evidence_of_run(first, self.cluster), trial.change, recorded)
            second = self._run(trial, trial.times.changed(trial.change), "after")
        except Exception as error:  # noqa: BLE001 - the other trials are of use without this one
            return Result(trial, failure=f"{type(error).__name__}: {error}")
        result = Result(
            trial,
            recorded=self._count(first),
            replayed=_counted(prediction, first, is_after=False),
            predicted=_counted(prediction, first, is_after=True),
            actual=self._count(second),
        )
        print(f"{result.row()}  {prediction.behaviour.notes}", file=sys.stderr, flush=True)  # noqa: T201
        return result

    def _run(self, trial: Trial, times: MemberTimes, which: str) -> TrialRun:
        group = f"{trial.name}-{which}"
        run = TrialRun(trial=trial, times=times, group=group, logs=self.directory / "clients" / group)
        run.carry_out(self.world)
        return run

    def _count(self, run: TrialRun) -> int:
        """The rebalances that the run had after its group was stable."""
        rounds = rounds_of_group(run.group, evidence_of_run(run, self.cluster))
        return sum(not each.is_avoided and bool(each.parts) and each.started_ms >= run.ready_ms for each in rounds)


def _counted(prediction: Prediction, run: TrialRun, *, is_after: bool) -> int:
    assert prediction.comparison is not None
    outcome = prediction.comparison.after if is_after else prediction.comparison.before
    return sum(each.at_ms >= run.ready_ms for each in outcome.rebalances)


def check_all(trials: Iterable[Trial], *, cache: Path, at_once: int = AT_ONCE) -> list[Result]:
    """The results of all trials, cluster by cluster."""
    chosen = list(trials)
    results: list[Result] = []
    for kind, make in CLUSTERS.items():
        of_kind = [trial for trial in chosen if trial.cluster == kind]
        if of_kind:
            results += _check_cluster(make, of_kind, cache, at_once)
    return sorted(results, key=lambda result: chosen.index(result.trial))


def _check_cluster(make: type[IncidentCluster], trials: Sequence[Trial], cache: Path, at_once: int) -> list[Result]:
    kafka_jars = cache / f"apache-kafka-{VERSION}"
    fetch_jars(ARTIFACTS, kafka_jars, what=f"Apache Kafka {VERSION}", report=report_progress)
    options = (*QUICK_JVM_OPTIONS[1:], *archive_options(kafka_archive(cache)))
    directory = Path(tempfile.mkdtemp(prefix="whatif-"))
    try:
        cluster = make(directory, cache)
        with (
            cluster,
            World(cluster.servers, directory, class_path=f"{kafka_jars}/*", jvm_options=options) as world,
            ThreadPoolExecutor(at_once) as pool,
        ):
            return list(pool.map(Experiment(cluster, world, directory).check, trials))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Run the trials; the exit status is 1 when fewer than 18 of 20 predictions are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="trials; all without one")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many groups at the same time")
    parser.add_argument("--cache", type=Path, default=Path(".cache"))
    parser.add_argument("--document", type=Path, default=Path("docs") / "whatif.md")
    given = parser.parse_args(arguments)
    trials = [trial for trial in TRIALS if not given.names or trial.name in given.names]
    results = check_all(trials, cache=given.cache.resolve(), at_once=given.at_once)
    for result in results:
        print(result.row())  # noqa: T201
    if not given.names:
        write_table(given.document, results)
    return 0 if sum(result.is_right for result in results) >= 0.9 * len(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
