"""Whatever names a cause, says whether a rebalance was planned, or who owns what says the same: on every recorded incident."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from ottla.broker.monitoring.group_metrics import planned as planned_label
from ottla.broker.monitoring.group_snapshot import cause_key
from ottla.history.group_history import GroupHistory, group_histories
from ottla.history.sources.evidence import Evidence, Kind, Source
from ottla.history.story.stories import stories
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import Verdict
from ottla.history.whatif.prediction import evidence_of_group
from ottla.history.whatif.reconstruction import reconstruct
from ottla.spark.pipelines.rebalances import rebalance_row
from ottla.testing.application.groups import rebalances_in_words
from trials.incidents.corpus import RecordedIncident

SETS = (frozenset(Source), frozenset({Source.GROUP_EVENTS}), frozenset({Source.BROKER_LOG, Source.CLIENT_LOG}))
LABELS = {True: "true", False: "false", None: "unknown"}
WORDS = {True: "(planned)", False: "(unplanned, {cause})", None: "(planned or not)"}


@pytest.fixture(scope="module", params=SETS, ids=["all", "own events", "logs"])
def cases(request: pytest.FixtureRequest, recorded_incidents: Sequence[RecordedIncident]) -> list[tuple[str, list[Evidence]]]:
    """The group of each incident, and what some of its sources say."""
    found = [
        (each.incident.group, [item for source, items in each.evidence.items() if source in request.param for item in items])
        for each in recorded_incidents
    ]
    return [(group, evidence) for group, evidence in found if any(item.group == group for item in evidence)]


@pytest.fixture(scope="module")
def histories(cases: list[tuple[str, list[Evidence]]]) -> list[GroupHistory]:
    return [group_histories(evidence)[group] for group, evidence in cases]


def claim(verdict: Verdict) -> tuple[int | None, str, bool | None, str]:
    """What a verdict says that others may contradict."""
    return verdict.generation, verdict.cause.value, verdict.planned, verdict.confidence.name.lower()


def test_diagnose_says_what_the_history_says(cases: list[tuple[str, list[Evidence]]], histories: list[GroupHistory]) -> None:
    for (group, evidence), history in zip(cases, histories, strict=True):
        assert [verdict.to_dict() for verdict in judge(evidence)[group]] == [verdict.to_dict() for verdict in history.verdicts]


def test_the_report_says_what_the_history_says(cases: list[tuple[str, list[Evidence]]], histories: list[GroupHistory]) -> None:
    for (group, evidence), history in zip(cases, histories, strict=True):
        (document,) = (story.to_dict() for story in stories(evidence) if story.group == group)
        columns = document["rebalances"]
        told = zip(*(columns[name] for name in ("generation", "cause", "planned", "confidence")), strict=True)
        assert sorted(told, key=repr) == sorted(map(claim, history.verdicts), key=repr)
        assert sorted(columns["moved"], key=repr) == sorted((each.cost.moved_partitions for each in history.verdicts), key=repr)


def test_the_table_says_what_the_history_says(histories: list[GroupHistory]) -> None:
    for history in histories:
        rows = iter([rebalance_row(rebalance) for rebalance in history.generations()])
        for rebalance in history.rebalances:
            if rebalance.is_avoided:
                continue
            row = next(rows)
            verdict = rebalance.verdict
            assert (row["planned"], row["confidence"]) == claim(verdict)[2:]
            moved = [row["partitions_moved"], *(next(rows)["partitions_moved"] for _ in rebalance.follow_ups)]
            if verdict.cost.moved_partitions is not None and verdict.outcome == "completed":
                assert sum(each or 0 for each in moved) == verdict.cost.moved_partitions
        assert next(rows, None) is None


def test_expectations_say_what_the_history_says(histories: list[GroupHistory]) -> None:
    for history in histories:
        generations = list(history.generations())
        lines = rebalances_in_words(generations).splitlines()[1 : 1 + len(generations)]  # advice follows
        assert [
            WORDS[each.verdict.planned].format(cause=each.verdict.cause.value) in line
            for each, line in zip(generations, lines, strict=True)
        ] == [True] * len(generations)


def test_metrics_contradict_no_verdict(histories: list[GroupHistory]) -> None:
    """A trigger's label may leave open what a verdict says, and never says the opposite."""
    for history in histories:
        for rebalance in history.rebalances:
            verdict = rebalance.verdict
            if rebalance.trigger is None or verdict.contributing:
                continue
            key = cause_key(rebalance.trigger, None if verdict.who is None else verdict.who.instance_id)
            assert planned_label(key) in ("unknown", LABELS[verdict.planned]), (history.group, rebalance.trigger, verdict)


def test_a_what_if_begins_with_the_rebalances_of_the_history(
    cases: list[tuple[str, list[Evidence]]], histories: list[GroupHistory]
) -> None:
    replayed = 0
    for (group, evidence), history in zip(cases, histories, strict=True):
        try:
            behaviour = reconstruct(group, evidence_of_group(group, evidence))
        except ValueError:  # KIP-848, or only clients saw it
            continue
        replayed += 1
        happened = [each for each in history.rebalances if not each.is_avoided and each.verdict.sources != ("client-log",)]
        assert list(behaviour.recorded_ms) == [each.started_ms for each in happened]
        causes = {(each.started_ms, each.verdict.cause) for each in happened}
        assert {(each.at_ms, each.cause) for each in behaviour.leader_rejoins} <= causes
    assert replayed > 80


def owners_over_time(document: Mapping[str, Any]) -> Iterator[tuple[int | None, dict[tuple[str, int], str]]]:
    """Each assignment of a story: its generation, and the name of each partition's owner."""
    arrays, names = document["assignments"], [member["name"] for member in document["members"]]
    places = [(topic, number) for topic, numbers in document["topics"] for number in numbers]
    owners: list[int] = [arrays["no_owner"]] * len(places)
    at_change = 0
    for index, is_whole in enumerate(arrays["is_whole"]):
        changed = arrays["owners"][arrays["starts"][index] : arrays["starts"][index + 1]]
        if is_whole:
            owners = list(changed)
        else:
            for place, owner in zip(arrays["places"][at_change : at_change + len(changed)], changed, strict=True):
                owners[place] = owner
            at_change += len(changed)
        owned = {place: names[owner] for place, owner in zip(places, owners, strict=True) if owner != arrays["no_owner"]}
        yield arrays["generation"][index], owned


def test_the_report_draws_the_owners_of_the_history(cases: list[tuple[str, list[Evidence]]], histories: list[GroupHistory]) -> None:
    compared = 0
    for (group, evidence), history in zip(cases, histories, strict=True):
        (document,) = (story.to_dict() for story in stories(evidence) if story.group == group)
        drawn = {generation: owned for generation, owned in owners_over_time(document) if generation is not None}
        for assignment in history.assignments:
            if assignment.generation not in drawn:
                continue
            owners = {
                (topic, partition): name
                for name, topics in assignment.owners.items()
                for topic, partitions in topics.items()
                for partition in partitions
            }
            assert drawn[assignment.generation] == owners, (group, assignment.generation)
            compared += 1
    if any(item.members is not None and item.kind is Kind.SYNC_COMPLETED for _, evidence in cases for item in evidence):
        assert compared > 500
