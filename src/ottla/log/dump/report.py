"""Which file is what, by its name, and the lines that a dump has about it.

Names are Kafka's, also those of files that are being made, swapped in or deleted. A dump of any file ends by itself: damage is a
`FindingItem`, and so is an error of the operating system.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from ottla.log.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LEADER_EPOCHS_FILE,
    LOG_START_FILE,
    META_PROPERTIES,
    METADATA_FILE,
    RECOVERY_POINT_FILE,
)
from ottla.log.dump.batches import dump_batches
from ottla.log.dump.indexes import (
    dump_leader_epochs,
    dump_offset_index,
    dump_offsets,
    dump_producer_snapshot,
    dump_properties,
    dump_time_index,
    dump_transaction_index,
)
from ottla.log.dump.items import DumpOptions, FindingItem, Item, Note, Window
from ottla.log.file_names import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.log.segment_facts import Readable
from ottla.protocol.errors import PeerError, StorageError

_BOOTSTRAP: Final = "bootstrap.checkpoint"


class FileKind(Enum):
    """What a file is."""

    LOG = auto()
    METADATA_SNAPSHOT = auto()
    OFFSET_INDEX = auto()
    TIME_INDEX = auto()
    TRANSACTION_INDEX = auto()
    PRODUCER_SNAPSHOT = auto()
    LEADER_EPOCHS = auto()
    OFFSETS = auto()
    PARTITION_METADATA = auto()
    PROPERTIES = auto()


# In the order in which a directory is dumped where the numbers in the names are the same.
_SUFFIXES: Final = {
    LOG_SUFFIX: FileKind.LOG,
    ".checkpoint": FileKind.METADATA_SNAPSHOT,
    INDEX_SUFFIX: FileKind.OFFSET_INDEX,
    TIME_INDEX_SUFFIX: FileKind.TIME_INDEX,
    TRANSACTION_INDEX_SUFFIX: FileKind.TRANSACTION_INDEX,
    SNAPSHOT_SUFFIX: FileKind.PRODUCER_SNAPSHOT,
}
_NAMES: Final = {
    META_PROPERTIES: FileKind.PROPERTIES,
    METADATA_FILE: FileKind.PARTITION_METADATA,
    LEADER_EPOCHS_FILE: FileKind.LEADER_EPOCHS,
    **dict.fromkeys((RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE), FileKind.OFFSETS),
}
_STATES: Final = ("", ".cleaned", ".swap", ".deleted")


def kind_of(name: str) -> FileKind | None:
    """The kind of a file of this name; None when it is not a file of Kafka's."""
    if name in _NAMES:
        return _NAMES[name]
    plain = _split_state(name)[0]
    dot = plain.rfind(".")
    return _SUFFIXES.get(plain[dot:]) if dot > 0 else None


def _split_state(name: str) -> tuple[str, str]:
    for state in _STATES[1:]:
        if name.endswith(state):
            return name.removesuffix(state), state
    return name, ""


def files_in(names: list[str]) -> list[str]:
    """Those names in a directory that can be dumped, in order: the segments one after another, each with its indexes, then the rest."""
    suffixes = list(_SUFFIXES)

    def place(name: str) -> tuple[bool, str, int, str]:
        stem, dot, suffix = _split_state(name)[0].rpartition(".")
        is_segment = name not in _NAMES
        return not is_segment, stem if is_segment else "", suffixes.index(dot + suffix) if is_segment else 0, name

    return sorted((name for name in names if kind_of(name) is not None), key=place)


def dump_file(files: Readable, path: str, shown: str, options: DumpOptions) -> Iterator[Item]:
    """The items about the file at `path`, which is printed as `shown`."""
    name = path.rpartition("/")[2]
    kind = kind_of(name)
    if kind is None:
        yield FindingItem(f"Ignoring unknown file {shown}", "  its name is none of a log's files")
        return
    try:
        yield from _dump(kind, files, path, shown, options)
    except StorageError as error:
        yield FindingItem(f"{shown} could not be read", f"  {error}")
    except PeerError as error:
        yield FindingItem(f"{shown} is corrupt", f"  {error}")


def _dump(kind: FileKind, files: Readable, path: str, shown: str, options: DumpOptions) -> Iterator[Item]:
    window = Window(files, path, size_max=options.bytes_max if kind in (FileKind.LOG, FileKind.METADATA_SNAPSHOT) else None)
    match kind:
        case FileKind.LOG | FileKind.METADATA_SNAPSHOT:
            yield from _title(kind, path)
            yield from dump_batches(window, shown, options)
        case FileKind.OFFSET_INDEX | FileKind.TIME_INDEX:
            yield from _dump_index(kind, files, window, shown, options)
        case FileKind.TRANSACTION_INDEX:
            yield from dump_transaction_index(window, shown)
        case FileKind.PRODUCER_SNAPSHOT:
            yield from dump_producer_snapshot(window, shown)
        case FileKind.LEADER_EPOCHS:
            yield from dump_leader_epochs(window, shown)
        case FileKind.OFFSETS:
            yield from dump_offsets(window, shown)
        case FileKind.PARTITION_METADATA:
            yield from dump_properties(window, shown, ":")
        case FileKind.PROPERTIES:
            yield from dump_properties(window, shown, "=")


def _title(kind: FileKind, path: str) -> Iterator[Item]:
    """The fields in a log's name."""
    name = path.rpartition("/")[2]
    stem = name.partition(".")[0]
    if kind is FileKind.LOG:
        base_offset = _base_offset(name)
        if base_offset is not None:
            yield Note(f"Log starting offset: {base_offset}")
    elif name == _BOOTSTRAP:
        yield Note("KRaft bootstrap snapshot")
    elif (numbers := stem.split("-")) and len(numbers) == 2 and all(map(_is_number, numbers)):
        yield Note(f"Snapshot end offset: {int(numbers[0])}, epoch: {int(numbers[1])}")


def _dump_index(kind: FileKind, files: Readable, window: Window, shown: str, options: DumpOptions) -> Iterator[Item]:
    directory, slash, name = window.path.rpartition("/")
    base_offset = _base_offset(name)
    if base_offset is None:
        yield FindingItem(f"{shown} has no offset in its name", "  its entries count from the offset in the name: 0 is taken")
        base_offset = 0
    # The log after its index: what an index of a running broker refers to is in the log by then.
    log_name = name.partition(".")[0] + LOG_SUFFIX + _split_state(name)[1]
    log = None
    if files.exists(directory + slash + log_name):
        log = Window(files, directory + slash + log_name)
    elif not options.is_sanity_check:
        yield FindingItem(f"{shown} cannot be compared with its log", f"  there is no {log_name} beside it")
    dump = dump_offset_index if kind is FileKind.OFFSET_INDEX else dump_time_index
    yield from dump(window, log, base_offset, shown, options)


def _base_offset(name: str) -> int | None:
    digits = name.partition(".")[0]
    return int(digits) if _is_number(digits) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20
