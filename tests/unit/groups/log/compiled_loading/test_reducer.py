"""What only the compiled backend does: tables that grow, codecs, strings made once, what is compiled when. That it equals the reference
backend: tests/properties."""

import pytest

from ottla.groups.log.compiled_loading import reducer
from ottla.groups.log.compiled_loading.reducer import CompiledReducer
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.groups.log.reducer import LoadedGroups, ReferenceReducer
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, seal
from ottla.protocol.records.compression import Codec


def log_of(commits: int, codec: Codec = Codec.NONE, per_batch: int = 100) -> bytes:
    """Commits of as many keys with as many metadata, in whole batches."""
    buffer = bytearray()
    for first in range(0, commits, per_batch):
        records = []
        for number in range(first, min(first + per_batch, commits)):
            topic_id = bytes([number % 3]) * 16
            value = OffsetValue(number, 5, f"metadata {number}", 7, topic_id=topic_id)
            record = OffsetRecord(group_id=f"g{number % 7}", topic=f"t{number % 5}", partition=number, value=value)
            records.append(Record(number, 7, encode_key(record), encode_value(record)))
        buffer += encode_batch(records, base_offset=first, codec=codec)
    return bytes(buffer)


def folded(fold: CompiledReducer | ReferenceReducer, buffer: bytes) -> LoadedGroups:
    fold.apply(fold.scan(buffer), skipped=frozenset(), from_offset=0)
    return fold.finish()


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("group_bytes", [reducer.GROUP_BYTES_MAX, 5000])
def test_tables_grow_with_the_log(codec: Codec, group_bytes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reducer, "GROUP_BYTES_MAX", group_bytes)
    buffer = log_of(20 * reducer.ROWS_MIN, codec)
    loaded = folded(CompiledReducer(), buffer)
    assert sum(len(partitions) for topics in loaded.replayed.offsets.values() for partitions in topics.values()) == 20 * 1024
    assert loaded == folded(ReferenceReducer(), buffer)


def test_equal_strings_are_one_object():
    offsets = folded(CompiledReducer(), log_of(70)).replayed.offsets
    (one,) = {id(topic) for topics in offsets.values() for topic in topics if topic == "t0"}
    assert one
    assert all(type(value) is OffsetValue for topics in offsets.values() for found in topics.values() for value in found.values())


def test_records_left_to_the_plain_decoder_are_many():
    records = [Record(number, 7, None, b"") for number in range(3 * reducer.ROWS_MIN + 5)]
    loaded = folded(CompiledReducer(), bytes(encode_batch(records)))
    assert len(loaded.problems) == len(records)
    assert loaded.problems[-1] == f"the record at offset {len(records) - 1} is passed over: a record of the offsets topic has no key"


def test_damage_is_refused():
    batch = bytearray(log_of(3))
    batch[22] |= 7  # no such codec
    seal(batch)
    with pytest.raises(PeerError, match="names codec 7"):
        folded(CompiledReducer(), bytes(batch))
    batch = bytearray(log_of(3))
    batch[-1] ^= 1
    with pytest.raises(PeerError, match="does not match its checksum"):
        folded(CompiledReducer(), bytes(batch))


def test_a_damaged_record_ends_the_fold_and_not_the_process():
    batch = bytearray(log_of(3))
    batch[61] ^= 2  # the first record's length
    seal(batch)
    with pytest.raises(PeerError, match="a record that does not fit into its batch"):
        folded(CompiledReducer(), bytes(batch))
