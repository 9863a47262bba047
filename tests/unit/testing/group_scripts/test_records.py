"""Records in the form in which they are compared."""

import uuid

from ottla.core.groups.log.records import GroupMetadataRecord, GroupMetadataValue, MemberValue, OffsetRecord, OffsetValue
from ottla.testing.group_scripts.masks import Masks
from ottla.testing.group_scripts.records import comparable_records

TOPIC_ID = uuid.UUID(int=77)


def offset(partition: int, value: OffsetValue | None) -> tuple[int | None, OffsetRecord]:
    return None if value is None else 4, OffsetRecord(group_id="g", topic="t", partition=partition, value=value)


def test_times_and_ids_are_masked_and_other_fields_are_not() -> None:
    value = OffsetValue(
        offset=5, leader_epoch=2, metadata="a", commit_timestamp_ms=1_000, expire_timestamp_ms=1_300, topic_id=TOPIC_ID.bytes
    )
    (record,) = comparable_records([offset(1, value)], Masks({"t": TOPIC_ID}))
    assert (record["version"], record["topic"], record["partition"]) == (4, "t", 1)
    fields = {"offset": 5, "leader_epoch": 2, "metadata": "a", "topic_id": "<id of t>"}
    assert record["value"] == fields | {"commit_timestamp_ms": True, "expire_timestamp_ms": 300}


def test_tombstones_in_a_row_have_no_order_and_others_have() -> None:
    value = OffsetValue(offset=5, leader_epoch=2, metadata="a", commit_timestamp_ms=1_000)
    masks = Masks({})
    one = comparable_records([offset(1, None), offset(0, None), offset(2, value), offset(1, value)], masks)
    assert one == comparable_records([offset(0, None), offset(1, None), offset(2, value), offset(1, value)], masks)
    assert one != comparable_records([offset(0, None), offset(1, None), offset(1, value), offset(2, value)], masks)


def test_members_are_named_and_in_order() -> None:
    ids = [f"c-{uuid.UUID(int=number)}" for number in range(2)]
    masks = Masks({})
    for member_id in ids:
        masks.name_member(member_id)
    members = [
        MemberValue(
            member_id=member_id,
            instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=1,
            session_timeout_ms=2,
            subscription=b"",
            assignment=b"",
        )
        for member_id in ids
    ]

    def fields(*listed: MemberValue) -> object:
        state = {"protocol_type": "consumer", "generation": 1, "protocol": "range", "leader": ids[1], "current_state_timestamp_ms": 9}
        record = GroupMetadataRecord(group_id="g", value=GroupMetadataValue(**state, members=listed))
        return comparable_records([(3, record)], masks)

    assert fields(*members) == fields(*members[::-1])
    assert "'leader': 'c-<2>'" in str(fields(*members))
    assert comparable_records([(None, GroupMetadataRecord(group_id="g", value=None))], masks) == [
        {"version": None, "group": "g", "value": None}
    ]
