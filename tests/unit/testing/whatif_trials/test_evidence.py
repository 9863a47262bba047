from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.core.diagnosis.evidence.model import Source
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.replay import replay
from ottla.testing.kit.group_behaviours import behaviour, process
from ottla.testing.whatif_trials.evidence import evidence_of_run

LINE = "%4|1795389557.954|MAXPOLL|a#consumer-1| [thrd:main]: Application maximum poll interval (8000ms) exceeded by 376ms: leaving group\n"
PREPARING = (
    "[1970-01-01 00:00:02,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=1] Preparing to rebalance group g in state "
    "PreparingRebalance with old generation 0 (reason: Adding new member a-1 with group instance id null; client reason: not provided). "
    "(org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
)


def run_of(tmp_path: Path, ended_ms: int) -> Any:
    log = tmp_path / "a.log"
    log.write_text(LINE)
    return SimpleNamespace(group="g", ended_ms=ended_ms, log_paths=lambda: [log])


def test_ottlas_own_events_and_the_logs_of_clients_until_the_end(tmp_path: Path) -> None:
    start = Action(at_ms=0, kind=ActionKind.START)
    events = list(replay(behaviour(process("a", start), process("b", start))).events)
    cluster: Any = SimpleNamespace(events=events)
    early, late = (evidence_of_run(run_of(tmp_path, ended_ms), cluster) for ended_ms in (2_000, 10**13))
    assert {item.source for item in late} == {Source.GROUP_EVENTS, Source.CLIENT_LOG}
    assert len(early) < len(late)
    assert max(item.at_ms for item in early) <= 2_000


def test_apache_kafkas_log_and_offsets_topic(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text(PREPARING)
    cluster: Any = SimpleNamespace(events=[], data_directory=tmp_path, log_path=log)
    assert Source.BROKER_LOG in {item.source for item in evidence_of_run(run_of(tmp_path, 9_000), cluster)}
