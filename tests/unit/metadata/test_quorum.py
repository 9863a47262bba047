"""Voters and snapshots: what Apache Kafka 4.3.0 wrote is read, and what we make has its form."""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.quorum import SnapshotId, first_snapshot, is_finished, snapshot_ids, voters_of
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, split_batches
from trials.fuzz.mutation import mutate

DIRECTORY = bytes.fromhex("0e76e17bd7ae40eb9e6167f4f7017440")
LEADER_CHANGE = bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00")
VOTERS = bytes.fromhex("0000 02 00000001") + DIRECTORY + b"\x02\x0bCONTROLLER\n127.0.0.1" + bytes.fromhex("8a95 00 0000 0001 00 00 00")


def control(kind: int, value: bytes) -> Record:
    return Record(0, 0, bytes([0, 0, 0, kind]), value)


@pytest.mark.parametrize(
    ("record", "voters"),
    [
        (control(2, LEADER_CHANGE), {1}),
        (
            control(2, bytes.fromhex("0001 00000001 03 00000001") + DIRECTORY + b"\0\0\0\0\x02" + DIRECTORY + bytes.fromhex("00 01 00")),
            {1, 2},
        ),
        (control(6, VOTERS), {1}),
        (control(5, bytes.fromhex("0000 0001 00")), None),
    ],
)
def test_voters(record: Record, voters: set[int] | None) -> None:
    assert voters_of(record) == voters


@pytest.mark.parametrize(("kind", "valid"), [(2, LEADER_CHANGE), (6, VOTERS)])
def test_mutated_control_records_give_voters_or_peer_error(kind: int, valid: bytes) -> None:
    for seed in range(2_000):
        with contextlib.suppress(PeerError):
            voters_of(control(kind, mutate(valid, Random(seed))))


@given(st.sampled_from([2, 6]), st.binary(max_size=80))
def test_any_bytes_give_voters_or_peer_error(kind: int, value: bytes) -> None:
    with contextlib.suppress(PeerError):
        voters_of(control(kind, value))


def test_snapshots_by_their_names() -> None:
    names = ["00000000000000000029.snapshot", "00000000000000000100-0000000002.checkpoint", "00000000000000000000-0000000000.checkpoint"]
    names += ["00000000000000000100-0000000002.checkpoint.part", "leader-epoch-checkpoint"]
    assert snapshot_ids(names) == [SnapshotId(0, 0), SnapshotId(100, 2)]
    assert SnapshotId(100, 2).file_name == names[1]


def test_the_first_snapshot_says_that_this_node_alone_votes() -> None:
    data = first_snapshot(7, DIRECTORY, 5)
    batches = [(header, decode_batch(data, at)) for at, header in split_batches(data)]
    assert [header.is_control for header, _ in batches] == [True, True]
    records = [record for _, found in batches for record in found]
    assert [record.key[3] for record in records] == [3, 5, 6, 4]
    assert [record.offset for record in records] == [0, 1, 2, 3]
    assert voters_of(records[2]) == {7}
    # the same fields in the same order as in the snapshot that Kafka's tool made, but for node and endpoint
    assert records[2].value == VOTERS.replace(b"\0\0\0\x01\x0e", b"\0\0\0\x07\x0e").replace(b"\n127.0.0.1\x8a\x95", b"\nlocalhost\x23\x85")


def test_a_snapshot_without_its_footer_is_not_finished() -> None:
    assert is_finished([control(3, b""), control(4, b"")])
    assert not is_finished([control(3, b"")])
    assert not is_finished([])
    assert not is_finished([Record(0, 0, None, b"")])
