"""Who leads instead, as bytes; that they are what kio reads is held by the tests of Fetch and Produce."""

from ottla.broker.protocol.current_leader import Leader, pack_endpoints, pack_leader
from ottla.core.wire.writer import Writer


def test_the_leader_of_a_partition_is_a_section_of_one_tagged_field() -> None:
    out = Writer(flexible=True)
    pack_leader(out, 1, leader_id=3, leader_epoch=7)
    assert bytes(out.data) == b"\x01\x01\x09" + (3).to_bytes(4, "big") + (7).to_bytes(4, "big") + b"\0"


def test_each_leader_is_named_once_and_strangers_are_left_out() -> None:
    out = Writer(flexible=True)
    pack_endpoints(out, [2, 1, 2, 9], {1: Leader(1, "a", 5), 2: Leader(2, "b", 6)}.get)
    first = (1).to_bytes(4, "big") + b"\x02a" + (5).to_bytes(4, "big") + b"\0\0"
    second = (2).to_bytes(4, "big") + b"\x02b" + (6).to_bytes(4, "big") + b"\0\0"
    assert bytes(out.data) == bytes([1, 0, 1 + len(first + second), 3]) + first + second


def test_an_answer_that_names_no_leader_ends_empty() -> None:
    out = Writer(flexible=True)
    pack_endpoints(out, [9], {}.get)
    assert bytes(out.data) == b"\0"
