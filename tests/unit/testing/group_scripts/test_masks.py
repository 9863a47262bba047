"""Ids are replaced by names and names by ids; everything else stays."""

import uuid

from kio.index import load_response_schema

from ottla.testing.group_scripts.masks import Masks

IDS = [f"c1-{uuid.UUID(int=number)}" for number in range(3)]
TOPIC_ID = uuid.UUID(int=77)


def test_names_count_by_prefix_in_the_order_of_first_sight() -> None:
    masks = Masks({})
    assert [masks.name_member(each) for each in (IDS[2], IDS[0], IDS[2])] == ["c1-<1>", "c1-<2>", "c1-<1>"]
    assert masks.name_member(f"instance-{uuid.UUID(int=9)}") == "instance-<1>"
    assert masks.name_member("no drawn id") == "no drawn id"


def test_names_are_sent_as_what_they_stand_for() -> None:
    masks = Masks({"t": TOPIC_ID})
    masks.name_member(IDS[1])
    sent = {"member_id": "c1-<1>", "topics": [{"topic_id": "<id of t>", "partitions": [3]}], "other": b"c1-<1>"}
    assert masks.real(sent) == {"member_id": IDS[1], "topics": [{"topic_id": TOPIC_ID, "partitions": [3]}], "other": b"c1-<1>"}
    assert masks.topic_id(TOPIC_ID) == "<id of t>"
    assert masks.topic_id(uuid.UUID(int=1)) == str(uuid.UUID(int=1))


def test_members_have_no_order() -> None:
    response = load_response_schema(11, 0)
    member = response.__annotations__ and load_response_schema(11, 0).__dataclass_fields__["members"].type.__args__[0]
    members = [member(member_id=each, metadata=b"") for each in (IDS[0], f"b-{uuid.UUID(int=1)}")]
    there, back = Masks({}), Masks({})
    assert there.masked_field("members", tuple(members)) == back.masked_field("members", tuple(members[::-1]))


def test_ports_are_left_out_and_nothing_else() -> None:
    masks = Masks({})
    assert masks.masked_field("port", 9092) == "<port>"
    assert masks.masked_field("node_id", 1) == 1
    assert masks.masked_field("partitions", (2, 1)) == [1, 2]
