"""Verdicts on simulated groups: from events, from the coordinator's log lines, and from its records, by the readers of each source.

Events say what the coordinator did. A verdict that calls itself certain with fewer sources must not differ from that of all of them, and
whatever is missing or out of order, there is a verdict and no exception.
"""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from ottla.groups.commands import Command, GroupEffects
from ottla.groups.log.records import EvidenceDecoder, encode_key, encode_value
from ottla.history.sources.broker_log import broker_log_reader
from ottla.history.sources.evidence import Cause, Evidence, Source
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.sources.group_records import GroupRecords, ReadCounts
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import REBALANCE, Confidence, Verdict
from ottla.protocol.model import Record
from trials.simulation.member import GROUP_ID
from trials.simulation.simulator import Simulation

SEEDS = 60
TIME_MS = 1_795_000_000_000
PREFIX = "INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=0] "


class ObservedSimulation:
    """A simulation whose events, log lines and records are kept, as three sources with clocks of their own."""

    def __init__(self, seed: int) -> None:
        self.events: list[Evidence] = []
        self.lines: list[str] = []
        self.records: list[Record] = []
        self._simulation = Simulation(seed)
        self._trace = self._simulation._trace.add
        self._simulation._trace.add = self._keep
        self._simulation.run()

    def _keep(self, effects: GroupEffects, command: Command | None) -> None:
        now_ms = TIME_MS + self._simulation._events.now_ms
        self.events += [item for item in evidence_of_events(effects.events, clock="events") if item.group == GROUP_ID]
        time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.lines += [f"[{time},{now_ms % 1000:03}] {PREFIX}{line}" for line in effects.log_lines]
        for record in effects.records:
            self.records.append(Record(len(self.records), now_ms + 250, encode_key(record), encode_value(record)))
        self._trace(effects, command)

    def evidence(self) -> dict[Source, list[Evidence]]:
        """What each source says about the group."""
        reader = GroupRecords(0, decode=EvidenceDecoder().decode, counts=ReadCounts(), groups=[GROUP_ID])
        topic = [*reader.read(self.records), *reader.finish()]
        lines = list(broker_log_reader(clock="server.log", zone=UTC).read(self.lines))
        return {
            Source.GROUP_EVENTS: self.events,
            Source.BROKER_LOG: [item for item in lines if item.group == GROUP_ID],
            Source.OFFSETS_TOPIC: topic,
        }


def observed(seed: int) -> dict[Source, list[Evidence]]:
    return ObservedSimulation(seed).evidence()


def verdicts(*sources: Sequence[Evidence]) -> list[Verdict]:
    return judge([item for source in sources for item in source]).get(GROUP_ID, [])


def certain(found: Sequence[Verdict]) -> dict[int, Cause]:
    """The causes that are called certain, by generation; only where a generation has one verdict."""
    by_generation: dict[int, list[Verdict]] = {}
    for verdict in found:
        if verdict.kind == REBALANCE and verdict.generation is not None:
            by_generation.setdefault(verdict.generation, []).append(verdict)
    return {at: of[0].cause for at, of in by_generation.items() if len(of) == 1 and of[0].confidence is Confidence.HIGH}


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_a_certain_verdict_of_fewer_sources_agrees_with_all(first: int) -> None:
    agree = differ = 0
    for seed in range(first, first + 20):
        sources = observed(seed)
        everything = {each.generation: each for each in verdicts(*sources.values()) if each.kind == REBALANCE}
        for left_out in sources:
            for generation, cause in certain(verdicts(*(items for source, items in sources.items() if source is not left_out))).items():
                full = everything.get(generation)
                if full is None:
                    continue
                agree += cause in full.candidates
                differ += cause not in full.candidates
    assert agree > 100
    assert differ <= 0.05 * (agree + differ), (agree, differ)


def test_what_expired_was_late_or_left_for_its_poll_interval_is_judged_so() -> None:
    right = wrong = 0
    for seed in range(SEEDS):
        events = observed(seed)[Source.GROUP_EVENTS]
        by_generation = {each.generation: each for each in verdicts(events) if each.kind == REBALANCE}
        for item in events:
            if item.trigger in (Cause.EXPIRE_HEARTBEAT, Cause.JOIN_TIMEOUT, Cause.SYNC_TIMEOUT, Cause.POLL_TIMEOUT) and not item.coalesced:
                assert item.generation is not None
                verdict = by_generation.get(item.generation + 1)
                if verdict is not None:
                    is_right = Cause(item.trigger) in verdict.candidates
                    right += is_right
                    wrong += not is_right
    assert right > 100
    assert wrong <= 0.05 * (right + wrong), (right, wrong)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_missing_or_out_of_order_there_is_no_exception(seed: int) -> None:
    rng = random.Random(seed)
    everything = [item for items in observed(seed).values() for item in items]
    for share in (0.9, 0.5, 0.1):
        some = [item for item in everything if rng.random() < share]
        rng.shuffle(some)
        for verdict in verdicts(some):
            assert verdict.cause in verdict.candidates
            assert verdict.ended_ms is None or isinstance(verdict.ended_ms, int)


def test_the_order_in_which_sources_are_given_does_not_matter() -> None:
    for seed in range(10):
        sources = list(observed(seed).values())
        assert [each.to_dict() for each in verdicts(*sources)] == [each.to_dict() for each in verdicts(*sources[::-1])]
