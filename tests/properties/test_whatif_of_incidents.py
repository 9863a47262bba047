"""What-if on the recorded incidents with real clients: a replay with the recorded settings has the recorded rebalances."""

from collections.abc import Iterable, Sequence

import pytest

from ottla.history.sources.evidence import Source
from ottla.history.whatif.prediction import Agreement, agreement, evidence_of_group, outcome_with
from ottla.history.whatif.reconstruction import reconstruct
from ottla.history.whatif.settings import RECORDED_DEFAULTS, Settings, merge
from trials.incidents.corpus import RecordedIncident

LOGS = frozenset({Source.BROKER_LOG, Source.CLIENT_LOG})


@pytest.fixture(scope="module")
def incidents(recorded_incidents: Sequence[RecordedIncident]) -> list[RecordedIncident]:
    """Groups of the classic protocol, from their first member to the end of the incident."""
    return [each for each in recorded_incidents if each.incident.protocol == "classic" and each.incident.action != "migrate"]


def replayed(
    incidents: Iterable[RecordedIncident], sources: frozenset[Source], recorded_with: Settings = RECORDED_DEFAULTS
) -> list[Agreement]:
    found = []
    for recorded in incidents:
        incident = recorded.incident
        items = [item for source, of_source in recorded.evidence.items() if source in sources for item in of_source]
        of_group = evidence_of_group(incident.group, (item for item in items if item.at_ms <= incident.end_ms))
        if of_group:
            behaviour = reconstruct(incident.group, of_group, recorded_with)
            found.append(agreement(behaviour.recorded_ms, outcome_with(behaviour, Settings())))
    return found


def test_recorded_rebalances_of_consumer_groups_are_reproduced(recorded_incidents: Sequence[RecordedIncident]) -> None:
    of_type = [each for each in recorded_incidents if each.incident.protocol == "consumer" and each.incident.action != "migrate"]
    # The group's settings, which no source shows: those of trials/incidents/world.py.
    recorded_with = merge(RECORDED_DEFAULTS, Settings(session_timeout_ms=6_000, heartbeat_interval_ms=1_000))
    found = replayed(of_type, frozenset(Source), recorded_with)
    recorded, reproduced = sum(each.recorded for each in found), sum(each.reproduced for each in found)
    extra = sum(len(each.extra_ms) for each in found)
    assert len(found) > 60
    assert reproduced / recorded >= 0.95, f"{reproduced} of {recorded}"
    assert extra / recorded <= 0.04, f"{extra} rebalances that were not recorded"


@pytest.mark.parametrize(
    ("sources", "at_least"),
    [
        (frozenset(Source), 0.97),
        (frozenset({Source.GROUP_EVENTS}), 0.98),
        (frozenset({Source.OFFSETS_TOPIC}), 0.97),
        (LOGS, 0.93),
    ],
    ids=["all", "own events", "offsets topic", "logs"],
)
def test_recorded_rebalances_are_reproduced(incidents: list[RecordedIncident], sources: frozenset[Source], at_least: float) -> None:
    found = replayed(incidents, sources)
    assert len(found) > 80
    recorded, reproduced = sum(each.recorded for each in found), sum(each.reproduced for each in found)
    extra = sum(len(each.extra_ms) for each in found)
    assert reproduced / recorded >= at_least, f"{reproduced} of {recorded}"
    assert extra / recorded <= 0.03, f"{extra} rebalances that were not recorded"
