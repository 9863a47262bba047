"""`ottla dump-log` on damaged files: whatever the bytes, it ends with sentences and a status, never with an exception."""

import io
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.dump import JsonPrinter, RecordContents, TextPrinter, reader_for
from ottla.log.checkpoints import EpochStart, encode_leader_epochs, encode_partition_metadata
from ottla.log.dump.batches import DumpOptions, FindingItem
from ottla.log.dump.report import dump_file
from ottla.log.file_system import MemoryFiles
from ottla.log.index import AbortedTransaction, encode_transactions
from ottla.log.producer_state import ProducerStates
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec

NAMES = [
    *("0.log", "0.index", "0.timeindex", "0.txnindex", "0.snapshot", "7-1.checkpoint", "bootstrap.checkpoint", "x.log", "x.index"),
    *("leader-epoch-checkpoint", "cleaner-offset-checkpoint", "partition.metadata", "meta.properties", "README"),
]
OFFSET_KEY = bytes.fromhex("000100016700017400000003")
OFFSET_VALUE = bytes.fromhex("0003000000000000002a0000000500016d0000018bcfe56800")
MARKER = encode_batch(
    [Record(15, 5, b"\0\0\0\1", b"\0\0\0\0\0\7", ())], base_offset=15, producer_id=1, is_control=True, is_transactional=True
)
LOG = b"".join(
    bytes(encode_batch([Record(3 * codec + n, 1000, OFFSET_KEY, OFFSET_VALUE, ()) for n in range(3)], base_offset=3 * codec, codec=codec))
    for codec in Codec
) + bytes(MARKER)
SOUND = [
    LOG,
    bytes(8) + (8).to_bytes(4) + (300).to_bytes(4),
    (1000).to_bytes(8) + (2).to_bytes(4) + (1001).to_bytes(8) + (5).to_bytes(4),
    encode_transactions([AbortedTransaction(7, 10, 20, 21)]),
    ProducerStates().encode(),
    encode_leader_epochs([EpochStart(0, 0)]),
    encode_partition_metadata(UUID(int=5)),
    b"node.id=1\n",
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The bytes of some file, cut, with a few bits or ranges changed, or nothing that was ever a file."""
    data = bytearray(draw(st.sampled_from(SOUND) | st.binary(max_size=300)))
    for _ in range(draw(st.integers(0, 4))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        what = draw(st.sampled_from(["flip", "cut", "write", "repeat"]))
        if what == "flip":
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif what == "cut":
            del data[at:]
        elif what == "write":
            data[at : at + 8] = draw(st.binary(min_size=1, max_size=8))
        else:
            data += data[at:]
    return bytes(data)


@given(
    name=st.sampled_from(NAMES),
    data=damaged(),
    log=damaged(),
    contents=st.sampled_from(RecordContents),
    options=st.builds(
        DumpOptions,
        with_records=st.booleans(),
        with_entries=st.booleans(),
        is_sanity_check=st.booleans(),
        bytes_max=st.none() | st.integers(1, 2000),
        batch_bytes_max=st.none() | st.integers(1, 2000),
    ),
)
def test_no_exception_escapes_and_every_line_can_be_printed(
    name: str, data: bytes, log: bytes, contents: RecordContents, options: DumpOptions
) -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    files.open("t-0/0.log").append(log)
    files.replace(f"t-0/{name}", data)
    out = io.StringIO()
    printers = (
        TextPrinter(out, out, contents=contents, reader=reader_for(contents), with_metadata=True),
        JsonPrinter(out, contents=contents, reader=reader_for(contents)),
    )
    for item in dump_file(files, f"t-0/{name}", name, options):
        for printer in printers:
            printer.item(item)
    for printer in printers:
        printer.end({"files": 1})
    assert printers[0].faults == printers[1].faults
    out.getvalue().encode()


@given(at=st.integers(0, len(LOG) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_log_is_never_overlooked_unless_no_checksum_covers_it(at: int, bit: int) -> None:
    data = bytearray(LOG)
    data[at] ^= 1 << bit
    files = MemoryFiles()
    files.make_directory("t-0")
    files.replace("t-0/0.log", data)
    found = [item for item in dump_file(files, "t-0/0.log", "0.log", DumpOptions()) if isinstance(item, FindingItem)]
    starts = [position for position in range(len(LOG)) if LOG[position : position + 7] == bytes(7) and LOG[position + 16] == 2]
    # Base offset and leader epoch lie outside the checksum: a broker sets them in place. Only offsets that go back betray them.
    is_covered = not any(position <= at < position + 8 or position + 12 <= at < position + 16 for position in starts)
    assert found or not is_covered


def test_the_sound_log_has_no_finding() -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    files.replace("t-0/0.log", LOG)
    assert not [item for item in dump_file(files, "t-0/0.log", "0.log", DumpOptions(with_records=True)) if isinstance(item, FindingItem)]
