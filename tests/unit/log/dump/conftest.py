"""A segment in memory with batches of every kind that a log holds, and a way to see what a dump says of a file."""

from collections.abc import Callable

import pytest

from ottla.log.dump.batches import DumpOptions, FindingItem, Item
from ottla.log.dump.report import dump_file
from ottla.log.file_system import MemoryFiles
from ottla.log.index import OffsetIndex, TimeIndex
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec

DIRECTORY = "t-0"
NAME = "00000000000000000100"


@pytest.fixture
def files() -> MemoryFiles:
    """Segment 100 of t-0: five batches of three records, a codec each, timestamps 1000, 1010 ... and an entry a batch in its indexes."""
    made = MemoryFiles()
    made.make_directory(DIRECTORY)
    log, offsets, times = made.open(f"{DIRECTORY}/{NAME}.log"), OffsetIndex(), TimeIndex()
    for codec in Codec:
        base = 100 + 3 * codec
        records = [Record(base + n, 1000 + 10 * codec + n, b"k%d" % n, b"v" * 20, ()) for n in range(3)]
        offsets.append(base + 2 - 100, log.size)
        times.append_if_later(1000 + 10 * codec + 2, base + 2 - 100)
        log.append(encode_batch(records, base_offset=base, codec=codec, producer_id=7, producer_epoch=0, base_sequence=3 * codec))
    made.open(f"{DIRECTORY}/{NAME}.index").append(offsets.encode())
    made.open(f"{DIRECTORY}/{NAME}.timeindex").append(times.encode())
    return made


@pytest.fixture
def dumped(files: MemoryFiles) -> Callable[..., list[Item]]:
    """`dumped("name", with_records=True)`: the items of a file of t-0."""

    def dump(name: str, **options: object) -> list[Item]:
        return list(dump_file(files, f"{DIRECTORY}/{name}", name, DumpOptions(**options)))  # type: ignore[arg-type]

    return dump


@pytest.fixture
def rewrite(files: MemoryFiles) -> Callable[[str, Callable[[bytearray], object]], None]:
    """`rewrite("name", change)` changes the bytes of a file of t-0 in place, by a function on a bytearray."""

    def change_file(name: str, change: Callable[[bytearray], object]) -> None:
        path = f"{DIRECTORY}/{name}"
        data = bytearray(files.read_all(path)) if files.exists(path) else bytearray()
        change(data)
        files.replace(path, data)

    return change_file


@pytest.fixture
def faults() -> Callable[[list[Item]], list[str]]:
    """The texts of those findings that are faults."""
    return lambda items: [item.text.strip() for item in items if isinstance(item, FindingItem) and item.is_fault]
