"""Any evidence in any order gives verdicts: no exception, a cause among its candidates, JSON for each."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.events import EventMember
from ottla.history.patterns import sentences
from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind, Source
from ottla.history.verdicts.judging import judge
from ottla.protocol.model import TopicPartition

NAMES = st.sampled_from(["a", "b", "rdkafka", "c-51b6c1d2-0000-4000-8000-0123456789ab", ""])
CODES = st.sampled_from([*(cause.value for cause in Cause), "LEAVE", "LEADER_REJOIN", "?"])
FIGURES = ("client_port", "last_heartbeat_age_ms", "session_timeout_ms", "members_resubscribed", "topics_added", "exceeded_ms")
REASONS = (
    "Adding new member a",
    "Removing member a on heartbeat expiration.",
    "Leader a re-joining",
    "explicit `LeaveGroup` request for () members.",
    "x",
)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["t", "u"]), st.integers(0, 2))
SMALL = st.integers(-5, 20_000)

members = st.builds(
    EventMember,
    member_id=NAMES,
    instance_id=st.none() | NAMES,
    client_id=NAMES,
    client_host=NAMES,
    session_timeout_ms=SMALL,
    rebalance_timeout_ms=SMALL,
    assignment=st.dictionaries(st.sampled_from(["t", "u"]), st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=2),
)
evidence = st.builds(
    Evidence,
    at_ms=st.integers(0, 100_000),
    source=st.sampled_from(Source),
    clock=st.just(""),
    kind=st.sampled_from(Kind),
    group=st.none() | st.sampled_from(["g", "h"]),
    generation=st.none() | st.integers(-2, 8),
    trigger=st.none() | CODES,
    candidates=st.lists(CODES, max_size=3).map(tuple),
    coalesced=st.booleans(),
    reason=st.none() | st.sampled_from(REASONS),
    member_id=st.none() | NAMES,
    instance_id=st.none() | NAMES,
    client_id=st.none() | NAMES,
    client_host=st.none() | NAMES,
    client_reason=st.none() | st.sampled_from(["not provided", "consumer poll timeout has expired.", "need to revoke partitions", "x"]),
    group_type=st.none() | st.sampled_from(["classic", "consumer"]),
    protocol=st.none() | st.sampled_from(["range", "cooperative-sticky"]),
    member_count=st.none() | st.integers(0, 3),
    members=st.none() | st.lists(members, max_size=3).map(tuple),
    topics=st.none() | st.frozensets(st.sampled_from(["t", "u"])),
    commits=st.dictionaries(PARTITIONS, st.builds(CommitSpan, SMALL, SMALL, SMALL, SMALL, st.integers(0, 3)), max_size=2),
    evidence=st.dictionaries(st.sampled_from(FIGURES), SMALL, max_size=3),
)


def with_clock(item: Evidence) -> Evidence:
    fields: dict[str, Any] = {name: getattr(item, name) for name in Evidence.__slots__}
    return Evidence(**(fields | {"clock": str(item.source)}))


@given(st.lists(evidence.map(with_clock), max_size=25))
def test_any_evidence_gives_verdicts(items: list[Evidence]) -> None:
    for verdicts in judge(items).values():
        for verdict in verdicts:
            assert verdict.cause in verdict.candidates
            assert json.loads(json.dumps(verdict.to_dict()))["cause"] == verdict.cause.value
            assert verdict.cost.stopped_partition_seconds is None or verdict.cost.stopped_partition_seconds >= 0
        assert all(isinstance(sentence, str) for sentence in sentences(verdicts, time_text=str))


@given(st.lists(evidence.map(with_clock), max_size=12), st.randoms(use_true_random=False))
def test_verdicts_do_not_depend_on_which_source_is_read_first(items: list[Evidence], random: Any) -> None:
    distinct = list({(item.source, item.at_ms): item for item in items}.values())
    sources = sorted({item.source for item in distinct})
    random.shuffle(sources)
    shuffled = [item for source in sources for item in distinct if item.source == source]
    found = {group: [verdict.to_dict() for verdict in verdicts] for group, verdicts in judge(distinct).items()}
    assert found == {group: [verdict.to_dict() for verdict in verdicts] for group, verdicts in judge(shuffled).items()}
