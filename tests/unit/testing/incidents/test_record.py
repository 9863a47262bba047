"""The recorder: keeps what went well, prints what did not, and collects the logs of clients."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.testing.incidents import record as record_module
from ottla.testing.incidents.group_run import GroupRun, NotStable, Plan
from ottla.testing.incidents.record import Recorder, client_logs, main, record


@pytest.fixture
def recorder(new_run: Callable[[Plan], GroupRun], new_plan: Callable[..., Plan]) -> Recorder:
    world = new_run(new_plan("join", id="other")).world
    return Recorder(SimpleNamespace(kind="scene"), world, run="scene-1")  # type: ignore[arg-type]


def test_an_incident_is_kept_and_a_failed_one_is_not(recorder: Recorder, new_plan: Callable[..., Plan], monkeypatch: Any) -> None:
    def fail(run: GroupRun) -> None:
        raise NotStable("never")

    monkeypatch.setitem(record_module.ACTIONS, "kill", fail)
    record(recorder, [new_plan("join"), new_plan("kill")], at_once=1)
    assert [each.id for each in recorder.incidents] == ["s-join"]
    assert len(recorder.failed) == 1
    assert "never" in recorder.failed[0]


def test_logs_are_those_of_own_processes_and_of_the_shared_one(recorder: Recorder, new_plan: Callable[..., Plan]) -> None:
    record(recorder, [new_plan("join")], at_once=1)
    (incident,) = recorder.incidents
    world = recorder._world
    world.shared_java_log.write_text(f"[Consumer clientId=x, groupId={incident.group}] joined\n")
    logs = client_logs(world, [incident])
    assert set(logs) == {
        "s-join/application.java.log",
        *(f"s-join/{incident.group}-{n}.{client}.log" for n, client in ((1, "java"), (2, "confluent"), (3, "aiokafka"))),
    }


def test_the_command_refuses_an_unknown_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["another"])
    assert "apache-kafka" in capsys.readouterr().err


def test_nothing_is_shared_with_another_run(tmp_path: Path) -> None:
    assert Path("tests/data/diagnosis") == record_module.OUTPUT
