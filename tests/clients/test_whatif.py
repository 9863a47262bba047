"""What-if by experiment, small: two incidents with real clients on Ottla are recorded, predicted with other settings, and repeated.

The whole experiment, with every client and on Apache Kafka too, is `make whatif-trials`.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.history.whatif.settings import Settings
from trials.incidents.handles import ProgramMember, start_python_member
from trials.incidents.members.program import MemberSettings
from trials.incidents.plan import CONFLUENT
from trials.incidents.world import OttlaCluster
from trials.whatif import experiment as experiments
from trials.whatif.cases import Do, MemberTimes, Step, Trial
from trials.whatif.experiment import Experiment, Result

TIMES = MemberTimes(session_ms=2_000, heartbeat_ms=300)
FREEZE = Trial(
    name="freeze",
    cluster="ottla",
    clients=(CONFLUENT, CONFLUENT),
    steps=(Step(0.2, 1, Do.FREEZE, 4),),
    change=Settings(session_timeout_ms=6_500),
    times=TIMES,
    settle_s=0.5,
)
RESTART = Trial(
    name="restart",
    cluster="ottla",
    clients=(CONFLUENT, CONFLUENT),
    steps=(Step(0.2, 1, Do.RESTART, 1),),
    change=Settings(session_timeout_ms=8_000, is_static=True),
    times=TIMES,
    settle_s=1.5,
)


class PythonWorld:
    """Topics and members of Python clients; nothing is produced."""

    def __init__(self, cluster: OttlaCluster) -> None:
        self.servers = cluster.servers

    def create_topic(self, name: str, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin: Any = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)

    def stop_producing(self, topics: list[str]) -> None:
        pass

    def start_member(self, settings: MemberSettings, log_path: Path, *, is_alone: bool) -> ProgramMember:
        return start_python_member(settings, log_path)


@pytest.fixture
def experiment(tmp_path: Path) -> Iterator[Experiment]:
    with OttlaCluster(tmp_path, tmp_path) as cluster:
        yield Experiment(cluster, PythonWorld(cluster), tmp_path)  # type: ignore[arg-type]


def test_predictions_come_true(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "SETTLED_S", 0.5)
    with ThreadPoolExecutor(2) as pool:
        results: list[Result] = list(pool.map(experiment.check, (FREEZE, RESTART)))
    assert [result.failure for result in results] == [None, None]
    assert [(result.recorded, result.replayed) for result in results] == [(2, 2), (2, 2)]
    assert [(result.predicted, result.actual) for result in results] == [(0, 0), (0, 0)]
    servers = experiment.world.servers
    arguments = ["whatif", "freeze-before", "--bootstrap-server", servers, "--set", "session.timeout.ms=6500", "--utc", "--json"]
    said = CliRunner().invoke(main, arguments)
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert [each["process"] for each in found["rebalances"] if each["after"] == "gone"] == ["freeze-before-1"] * 2
