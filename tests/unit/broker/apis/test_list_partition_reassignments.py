"""ListPartitionReassignments: a reassignment is complete at once, so none is ever under way."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize(
    "topics",
    [None, [], [{"name": "t", "partition_indexes": [0, 9]}], [{"name": "gone", "partition_indexes": [0]}]],
    ids=["all", "none", "some", "unknown"],
)
def test_no_reassignment_is_under_way(api, make_topic, topics) -> None:
    make_topic("t")
    answer = api.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics, timeout=1000)
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, ())
