"""One group as the sampler sees it, for every page of metrics."""

import pytest

from ottla.broker.monitoring.group_snapshot import EventCounts, GroupRow, OffsetRow, TopicRow
from ottla.history.burrow import Status


@pytest.fixture
def group_row() -> GroupRow:
    """A group of three members; it has committed offsets in a topic and in one that was deleted."""
    return GroupRow(
        group_id="g",
        broker_id=2,
        state="Stable",
        generation=9,
        protocol_type="consumer",
        protocol="range",
        members=3,
        static_members=2,
        empty_members=1,
        lag_sum=60,
        lag_max=40,
        offset_commits=11,
        offsets=(
            OffsetRow("t", 0, 5, 0, 45, 40, ("m1", "c1", "/127.0.0.1"), Status.STALL),
            OffsetRow("gone", 1, 5, None, None, None, ("", "", ""), Status.OK),
        ),
        offsets_left_out=0,
        by_topic={"t": (25, 60)},
        topics=(TopicRow("t", 2, 4),),
        status=Status.ERR,
        counts=EventCounts(),
    )
