"""Batches of the offsets topic with the records of some groups alone; offsets, times, producers and transactions stay what they are."""

from collections.abc import Callable, Container

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import Batch, BatchHeader, decode_batch, empty_batch, encode_batch, read_header
from ottla.protocol.wire.primitives import Reader

GroupOf = Callable[[bytes | None], str | None]


def group_of_record(key: bytes | None) -> str | None:
    """The group of a record of the offsets topic, which every type of key has first; None for bytes that are no key."""
    try:
        reader = Reader(key or b"")
        reader.skip(2)
        return reader.string()
    except PeerError:
        return None


def group_of_event(key: bytes | None) -> str | None:
    """The group of a record of the group events topic: its key."""
    return None if key is None else key.decode(errors="replace")


def keep_groups(batch: Batch, groups: Container[str], group_of: GroupOf) -> Batch:
    """The batch with these groups' records, without any if it has none of them; control batches and damaged ones stay whole."""
    header = batch.header
    if header.is_control:
        return batch
    try:
        records = decode_batch(batch.data)
    except PeerError:
        return batch
    kept = [record for record in records if group_of(record.key) in groups]
    if len(kept) == len(records):
        return batch
    data = bytes(_encode(header, kept) if kept else empty_batch(header))
    return Batch(read_header(data), data)


def _encode(header: BatchHeader, kept: list[Record]) -> bytearray:
    return encode_batch(
        kept,
        base_offset=header.base_offset,
        codec=header.codec,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_log_append_time=header.is_log_append_time,
        is_transactional=header.is_transactional,
        delete_horizon_ms=header.delete_horizon_ms,
        last_offset=header.last_offset,
    )
