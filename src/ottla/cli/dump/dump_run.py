"""A dump from its arguments to its exit status: the files that are meant, one after another, each to the printer.

A directory stands for all files in it that can be dumped, and in a data directory for those of its partitions. Nothing is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ottla.core.errors import StorageError
from ottla.storage.dump.items import BatchItem, DumpOptions, FindingItem, Item, OldBatchItem, RecordItem
from ottla.storage.dump.report import dump_file, files_in
from ottla.storage.files import OsFiles


class Printer(Protocol):
    """What prints a dump; `faults` counts what was wrong so far."""

    faults: int

    def file(self, shown: str) -> None: ...
    def item(self, item: Item) -> None: ...
    def end(self, counts: Mapping[str, int]) -> None: ...


class Target(NamedTuple):
    """A file to be dumped, or why there is none."""

    path: Path
    finding: FindingItem | None = None


def targets(arguments: Sequence[str]) -> Iterator[Target]:
    """The files that the arguments name, directories opened one level deep, in order."""
    for argument in arguments:
        path = Path(argument)
        try:
            if path.is_dir():
                yield from _in_directory(path)
            elif path.is_file():
                yield Target(path)
            else:
                what = "is neither a file nor a directory" if path.exists() else "is not there"
                yield Target(path, FindingItem(f"{path} could not be read", f"  it {what}"))
        except OSError as error:
            yield Target(path, FindingItem(f"{path} could not be read", f"  {error.strerror or error}"))


def _in_directory(directory: Path) -> Iterator[Target]:
    files = OsFiles(directory)
    partitions = [name for name in _names(files, "") if (directory / name).is_dir()]
    found = [directory / name for name in files_in(_names(files, "")) if (directory / name).is_file()]
    for partition in partitions:
        found += [directory / partition / name for name in files_in(_names(files, partition)) if (directory / partition / name).is_file()]
    yield from map(Target, found)
    if not found:
        yield Target(directory, FindingItem(f"{directory} could not be read", "  no file in it is one of a log"))


def _names(files: OsFiles, directory: str) -> list[str]:
    try:
        return files.list(directory)
    except StorageError as error:
        raise OSError(str(error)) from error


def run(arguments: Sequence[str], options: DumpOptions, printer: Printer) -> int:
    """Dumps everything; the exit status: 1 when anything was wrong with a file."""
    counts = {"files": 0, "batches": 0, "records": 0}
    for path, finding in targets(arguments):
        printer.file(str(path))
        if finding is not None:
            printer.item(finding)
            continue
        counts["files"] += 1
        for item in dump_file(OsFiles(path.parent), path.name, str(path), options):
            counts["batches"] += isinstance(item, BatchItem | OldBatchItem)
            counts["records"] += isinstance(item, RecordItem)
            printer.item(item)
    printer.end(counts)
    return 1 if printer.faults else 0
