"""The recipes of docs/history.md, run as they stand there, beside logs of Apache Kafka and an archive such as `ottla watch` makes."""

import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import ottla.history
from ottla.groups.events import event_json
from ottla.history.sources.archive import ArchiveWriter
from ottla.history.whatif.behaviour import Action, ActionKind
from ottla.history.whatif.replay import replay
from ottla.log.files import OsFiles
from ottla.metadata.topics import GROUP_EVENTS
from ottla.protocol.model import Record
from ottla.protocol.records.batch import Batch, encode_batch, read_header
from tests.support.kit.group_behaviours import behaviour, process

ROOT = Path(__file__).parents[2]
BROKER_LOG = ROOT / "tests" / "data" / "logs" / "apache-kafka-4.3.0.log"
CLIENT_LOG = ROOT / "tests" / "data" / "logs" / "java-4.3.0.log"
NOTEBOOK, CHECK, INCIDENTS, ALERT = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "history.md").read_text(), re.DOTALL)
SILENT_MS = 60_000


def run_recipe(recipe: str, directory: Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-c", recipe], cwd=directory, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    shutil.copy(BROKER_LOG, tmp_path / "server.log")
    shutil.copy(CLIENT_LOG, tmp_path / "worker-1.log")
    return tmp_path


def test_the_notebook_counts_causes(logs: Path) -> None:
    pytest.importorskip("pandas")
    status, text = run_recipe(NOTEBOOK, logs)
    assert status == 0
    (shown,) = re.findall(r"java-classic .*?POLL_TIMEOUT +(\d+) ", text, re.DOTALL)
    group = ottla.history.read(broker_logs=BROKER_LOG, client_logs=CLIENT_LOG)["java-classic"]
    assert int(shown) == sum(rebalance.verdict.cause == "POLL_TIMEOUT" for rebalance in group.rebalances) > 0


def test_the_check_fails_for_an_unplanned_rebalance_and_says_what_to_set(logs: Path) -> None:
    status, text = run_recipe(CHECK, logs)
    assert status == 1
    assert "java-classic, generation 2: POLL_TIMEOUT of " in text
    assert "\n  max.poll.interval.ms: " in text


def test_incidents_name_who_and_what_helps(logs: Path) -> None:
    status, text = run_recipe(INCIDENTS, logs)
    assert status == 0
    lines = text.splitlines()
    incidents = ottla.history.read(broker_logs=BROKER_LOG, client_logs=CLIENT_LOG).incidents
    assert len(lines) == sum(incident.planned is False for incident in incidents) > 0
    assert any("restart in aiokafka: ak-1; " in line and "group.instance.id helps" in line for line in lines)


def test_the_check_passes_where_all_was_planned(tmp_path: Path) -> None:
    first_start = BROKER_LOG.read_text().splitlines()
    end = next(at for at, line in enumerate(first_start) if "Assignment received from leader" in line)
    (tmp_path / "server.log").write_text("\n".join(first_start[: end + 1]) + "\n")
    (tmp_path / "worker-1.log").touch()
    assert run_recipe(CHECK, tmp_path) == (0, "")


@pytest.mark.parametrize(("silences", "line"), [(1, ""), (2, "g: 4 unplanned rebalances in 10 minutes (EXPIRE_HEARTBEAT)\n")])
def test_the_alert_counts_rebalances_of_the_last_minutes(silences: int, line: str, tmp_path: Path) -> None:
    """A member that falls silent makes two: it is removed, and it comes back."""
    now_ms = time.time_ns() // 1_000_000
    write_archive(tmp_path / "watched", began_ms=now_ms - 3_600_000, silent_ms=[now_ms - 500_000 + 150_000 * at for at in range(silences)])
    assert run_recipe(ALERT, tmp_path) == (0, line)


def write_archive(directory: Path, *, began_ms: int, silent_ms: list[int]) -> None:
    """Of a group of two, one of which falls silent at each of these times, and once an hour before."""
    silences = [Action(at_ms=at_ms, kind=ActionKind.SILENCE, until_ms=at_ms + SILENT_MS) for at_ms in (began_ms + 100_000, *silent_ms)]
    start = Action(at_ms=began_ms, kind=ActionKind.START)
    group = behaviour(process("a", start), process("b", start, *silences), ended_ms=began_ms + 3_600_000)
    events = replay(replace(group, started_ms=began_ms)).events
    archive = ArchiveWriter(OsFiles(directory), now_ms=began_ms)
    records = [Record(offset, event.at_ms, None, event_json(event)) for offset, event in enumerate(events)]
    data = bytes(encode_batch(records, base_offset=0))
    archive.append(GROUP_EVENTS, 0, [Batch(read_header(data), data)])
    archive.close()


def test_rebalances_are_chosen_by_time_and_group() -> None:
    everything = ottla.history.read(broker_logs=BROKER_LOG, zone=UTC)
    rebalances = everything["java-classic"].rebalances
    since, until = (datetime.fromtimestamp(rebalances[at].started_ms / 1000, UTC) for at in (3, 6))
    chosen = ottla.history.read(broker_logs=[BROKER_LOG], groups="java-classic", since=since, until=until, zone=UTC)
    assert list(chosen) == ["java-classic"]
    assert [rebalance.generation for rebalance in chosen["java-classic"].rebalances] == [4, 5, 6]
    later = ottla.history.read(broker_logs=[BROKER_LOG], since=f"{until + timedelta(days=1):%Y-%m-%d}", zone=UTC)
    assert {group: history.rebalances for group, history in later.items()} == dict.fromkeys(everything, ())
    assert "lines were understood" in everything.notes[0]


def test_what_cannot_be_read_is_said() -> None:
    with pytest.raises(ValueError, match="nothing to read"):
        ottla.history.read()
    with pytest.raises(ottla.history.SourceError, match=r"nowhere\.log: no such file"):
        ottla.history.read(client_logs="nowhere.log")
    with pytest.raises(ValueError, match=r"no property of a Kafka consumer"):
        ottla.history.read(bootstrap_servers="localhost:9092", client={"sesion.timeout.ms": "1"})


def test_the_package_loads_nothing_before_it_is_used() -> None:
    program = "import sys, ottla.history; print([name for name in sys.modules if name.startswith('ottla.')])"
    assert run_recipe(program, ROOT) == (0, "['ottla.history']\n")
