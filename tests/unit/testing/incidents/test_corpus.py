"""A recorded run is read with Ottla's readers: each source gives evidence of each group."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.core.diagnosis.evidence.model import Source
from ottla.testing.incidents.corpus import CORPUS, RecordedIncident

ROOT = Path(__file__).parents[4]
RUNS = sorted((ROOT / CORPUS).glob("*/"))


@pytest.fixture(scope="module", params=RUNS, ids=lambda path: path.name)
def run(request: pytest.FixtureRequest, recorded_incidents: Sequence[RecordedIncident]) -> list[RecordedIncident]:
    found = [each for each in recorded_incidents if each.incident.run == request.param.name]
    assert found
    return found


def test_each_source_knows_the_groups(run: list[RecordedIncident]) -> None:
    for source in run[0].evidence:
        known = [each for each in run if each.evidence[source]]
        if source is Source.CLIENT_LOG:  # librdkafka says little by default, and members of bare requests nothing
            assert all(each in known for each in run if {"java", "kafka-python"} & set(each.incident.clients))
        else:
            assert len(known) == len(run), source


def test_ottla_has_events_and_apache_kafka_has_none(run: list[RecordedIncident]) -> None:
    assert {Source.GROUP_EVENTS in each.evidence for each in run} == {run[0].incident.cluster == "ottla"}


def test_no_evidence_is_of_another_group(run: list[RecordedIncident]) -> None:
    for each in run:
        for items in each.evidence.values():
            assert {item.group for item in items} <= {each.incident.group, None}
