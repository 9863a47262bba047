"""Renames of a log's files when segments are replaced or deleted: `.cleaned` → `.swap` → no suffix, and no suffix → `.deleted`.

A crash between any two of these steps leaves names from which `resolve_names` finds a whole log again. The callers decide which segments
are swapped. Source: Kafka's `UnifiedLog.replaceSegments` and `LogLoader`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.core.errors import StorageError
from ottla.storage.file_system import Files
from ottla.storage.log.file_names import LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, offset_of
from ottla.storage.log.segment import Segment

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETED_SUFFIX: Final = ".deleted"
_TEMPORARY_SUFFIX: Final = ".tmp"


def mark_deleted(files: Files, paths: Iterable[str]) -> tuple[str, ...]:
    """Rename those of the files that exist; their new names."""
    there = [path for path in paths if files.exists(path)]
    for path in there:
        files.rename(path, path + DELETED_SUFFIX)
    return tuple(path + DELETED_SUFFIX for path in there)


def segment_files(segment: Segment) -> list[str]:
    """The paths of a segment's files, whether they exist or not; the log first, since it is the log that makes a segment."""
    return [segment.file(suffix) for suffix in SEGMENT_SUFFIXES]


def remove_cleaned(files: Files, path: str) -> None:
    """Remove files of a cleaning that are no longer needed."""
    for suffix in SEGMENT_SUFFIXES:
        for made in (path + suffix + CLEANED_SUFFIX, path + suffix + SWAP_SUFFIX):
            if files.exists(made):
                files.remove(made)


class HalfSwapped(StorageError):
    """The disk failed in the middle of a swap: opening the log again completes it. No file of it may be removed."""


def make_ready(files: Files, path: str) -> None:
    """Durable `.cleaned` files become `.swap`: from here on a crash ends with the swap done. Any thread may do it; it waits for the disk.

    No name that the log lives by changes before all new ones are durable, whatever order the file system keeps changes of names in.
    """
    directory = path.rpartition("/")[0]
    files.sync_directory(directory)
    for suffix in reversed(SEGMENT_SUFFIXES):  # the log last: from then on the swap counts
        if files.exists(path + suffix + CLEANED_SUFFIX):
            files.rename(path + suffix + CLEANED_SUFFIX, path + suffix + SWAP_SUFFIX)
        elif files.exists(path + suffix + SWAP_SUFFIX):  # of an earlier cleaning, whose swap was never asked for
            files.remove(path + suffix + SWAP_SUFFIX)
    files.sync_directory(directory)


def is_ready(files: Files, path: str) -> bool:
    """Whether there is something to swap in."""
    return files.exists(path + LOG_SUFFIX + SWAP_SUFFIX)


def swap_in(files: Files, path: str, replaced: Sequence[Segment]) -> tuple[str, ...]:
    """Give `.swap` files (see `make_ready`) the place of `replaced`, the first of which has the same path. The old files' names."""
    try:
        # From the newest to the oldest: while the first one is there, what is left has no hole.
        deleted = [old for segment in reversed(replaced) for old in mark_deleted(files, reversed(segment_files(segment)))]
        deleted += mark_deleted(files, [segment.path + SNAPSHOT_SUFFIX for segment in replaced[1:]])
        for name in [path + suffix for suffix in reversed(SEGMENT_SUFFIXES)]:
            if files.exists(name + SWAP_SUFFIX):
                files.rename(name + SWAP_SUFFIX, name)
    except StorageError as error:
        raise HalfSwapped(
            f"the log {path.rpartition('/')[0]} must be opened again: a swap of its segments was interrupted ({error})"
        ) from error
    return tuple(deleted)


def resolve_names(files: Files, directory: str) -> list[str]:
    """Finish or undo what a crash interrupted; the names that are in the directory then."""
    names = files.list(directory)
    cleaned = [base for name in names if name.endswith(CLEANED_SUFFIX) and (base := offset_of(name)) is not None]
    undone = min(cleaned, default=None)
    gone = [name for name in names if name.endswith((_TEMPORARY_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX))]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if undone is not None:
        gone += [name for name in swaps if (base := offset_of(name)) is None or base >= undone]
    swaps = [name for name in swaps if name not in gone]
    gone += _replaced(files, directory, names, swaps)
    for name in gone:
        files.remove(f"{directory}/{name}")
    for name in sorted(swaps, key=lambda name: name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    if gone or swaps:
        files.sync_directory(directory)
        names = files.list(directory)
    return names


def _replaced(files: Files, directory: str, names: list[str], swaps: list[str]) -> list[str]:
    """The plain files whose place the finished swaps take: all from the first one's base to the last one's end."""
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    ranges = []
    for name in logs:
        base = offset_of(name)
        if base is not None:
            swap = Segment(files, directory, base, index_interval_bytes=0, made_ms=0, file_suffix=SWAP_SUFFIX)
            ranges.append((base, max([base, *(header.last_offset for _, header in swap.batches())])))
            swap.close()
    plain = [(name, base) for name in names if name.endswith(SEGMENT_SUFFIXES) and (base := offset_of(name)) is not None]
    return [name for name, base in plain if any(first <= base <= last for first, last in ranges)]
