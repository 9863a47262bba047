"""The test data of a run: which lines are kept, what is masked, and that archives unpack."""

import gzip
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.history.sources.evidence import Cause
from trials.incidents.corpus import (
    AVOIDABLE,
    MAKING,
    MEASURING,
    PLANNED,
    Incident,
    broker_lines,
    from_json,
    halved,
    lines_by_group,
    read_labels,
    to_json,
    unpack,
    write_run,
)

COORDINATOR = "[2026-01-01 00:00:00,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=0] Stabilized (org.apache.x)\n"
OTHER = "[2026-01-01 00:00:00,000] INFO Awaiting socket connections (kafka.network)\n"


def test_lines_of_coordinators_are_kept_and_one_of_ten_of_the_others() -> None:
    kept = list(broker_lines([OTHER] * 20 + [COORDINATOR] * 3 + ["\tat a.stack.trace\n"]))
    assert kept == [OTHER] * 2 + [COORDINATOR] * 3


def test_long_other_lines_are_cut() -> None:
    assert len(next(iter(broker_lines(["[x" + "y" * 10_000 + "\n"])))) == 4_001


def test_lines_of_a_shared_log_belong_to_the_group_that_they_name() -> None:
    lines = [
        "ConsumerConfig values:\n",
        "[Consumer clientId=a, groupId=one] joins\n",
        "\tat trace\n",
        "[Consumer clientId=b, groupId=two]\n",
    ]
    assert lines_by_group(lines) == {"one": [lines[1]], "two": [lines[3]]}


def test_a_run_is_written_and_read(incident: Incident, tmp_path: Path) -> None:
    offsets = tmp_path / "data" / "__consumer_offsets-3"
    offsets.mkdir(parents=True)
    (offsets / "00000000000000000000.log").write_bytes(b"records")
    (tmp_path / "data" / "__consumer_offsets-2").mkdir()
    (tmp_path / "data" / "__consumer_offsets-2" / "00000000000000000000.log").touch()
    (tmp_path / "broker.log").write_text(COORDINATOR.replace("Stabilized", f"read {tmp_path}/x"))
    write_run(
        tmp_path / "run",
        incidents=[incident],
        broker_log=tmp_path / "broker.log",
        data_directory=tmp_path / "data",
        client_logs={"a1/member.java.log": f"at {tmp_path}\n"},
        events=['{"kind": "loaded"}'],
        secrets={str(tmp_path): "/data"},
    )
    run = tmp_path / "run"
    assert read_labels(run) == [incident]
    assert "read /data/x" in gzip.decompress((run / "broker.log.gz").read_bytes()).decode()
    assert json.loads(gzip.decompress((run / "group-events.jsonl.gz").read_bytes())) == {"kind": "loaded"}
    unpack(run / "client-logs.tar.xz", tmp_path / "logs")
    assert (tmp_path / "logs" / "a1" / "member.java.log").read_text() == "at /data\n"
    unpack(run / "offsets-topic.tar.xz", tmp_path / "offsets")
    assert [path.relative_to(tmp_path / "offsets") for path in sorted(tmp_path.glob("offsets/*/*"))] == [
        Path("__consumer_offsets-3/00000000000000000000.log")
    ]


# --- labels of incidents: written and read, and divided into two halves


def test_what_is_written_is_read_again(incident: Incident) -> None:
    incidents = [incident, replace(incident, id="a2", rebalances=())]
    assert from_json(to_json(incidents)) == incidents


@pytest.mark.parametrize("seed", range(20))
def test_halves_are_balanced_over_causes_and_do_not_depend_on_the_order(incident: Incident, seed: int) -> None:
    rng = random.Random(seed)
    causes = rng.choices(["JOIN_NEW", "CAPACITY", "ADMIN"], k=rng.randrange(30))
    incidents = [replace(incident, id=f"{seed}-{number}", cause=cause) for number, cause in enumerate(causes)]
    found = halved(incidents)
    assert [each.id for each in found] == [each.id for each in incidents]
    assert sorted(halved(incidents[::-1]), key=str) == sorted(found, key=str)
    counts = Counter((each.cause, each.half) for each in found)
    for cause in set(causes):
        assert 0 <= counts[cause, MAKING] - counts[cause, MEASURING] <= 1


def test_what_can_be_avoided_was_not_planned() -> None:
    assert set() == PLANNED & AVOIDABLE
    assert set(Cause) > PLANNED | AVOIDABLE
