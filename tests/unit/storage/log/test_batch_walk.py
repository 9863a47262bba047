"""Batches by their headers: the walk ends before the first that is not whole, or not sound when checksums are compared."""

import pytest

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage.file_system import File
from ottla.storage.log.batch_walk import ends_at_a_batch, walk_batches
from ottla.storage.log.index import OffsetIndex
from ottla.storage.memory_files import MemoryFiles

BATCHES = [bytes(encode_batch([Record(at, 5, None, bytes(size))], base_offset=at)) for at, size in enumerate((10, 40_000, 10))]


def log_of(data: bytes) -> File:
    files = MemoryFiles()
    file = files.open("0.log")
    file.append(data)
    return file


@pytest.mark.parametrize("verify_crc", [False, True])
def test_every_whole_batch_with_its_position(verify_crc: bool) -> None:
    data = b"".join(BATCHES)
    found = [(at, header.base_offset) for at, header in walk_batches(log_of(data), 0, len(data), verify_crc=verify_crc)]
    assert found == [(0, 0), (len(BATCHES[0]), 1), (len(BATCHES[0]) + len(BATCHES[1]), 2)]
    later = walk_batches(log_of(data), len(BATCHES[0]), len(data) - 1, verify_crc=verify_crc)
    assert [header.base_offset for _, header in later] == [1], "the last one is not whole"


def test_damage_is_seen_when_checksums_are_compared() -> None:
    data = bytearray(b"".join(BATCHES))
    data[len(BATCHES[0]) + 20_000] ^= 1
    assert [header.base_offset for _, header in walk_batches(log_of(bytes(data)), 0, len(data))] == [0, 1, 2]
    assert [header.base_offset for _, header in walk_batches(log_of(bytes(data)), 0, len(data), verify_crc=True)] == [0]
    assert list(walk_batches(log_of(b"x" * 200), 0, 200)) == []


def test_the_last_index_entry_must_be_that_of_a_batch() -> None:
    log, index = log_of(b"".join(BATCHES)), OffsetIndex()
    assert ends_at_a_batch(log, 0, index)
    index.append(1, len(BATCHES[0]))
    assert ends_at_a_batch(log, 0, index)
    assert not ends_at_a_batch(log, 100, index)
    index.append(2, len(BATCHES[0]) + 7)
    assert not ends_at_a_batch(log, 0, index)
