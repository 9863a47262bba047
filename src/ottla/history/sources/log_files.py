"""Log files of brokers and clients as a source of evidence: plain or gzip, rotated, given by name or by pattern.

Each log is one clock, named by its path; rotated files (`server.log.1`, `server.log.2026-11-22-13`, either with `.gz`) belong to the log
that they are named after. A file that cannot be read, or only in part, is a problem that is said, not an error.

Large files are read in parts, by several processes side by side; the evidence is the same, however many there are. A part has the lines
that begin in it. Its reader first goes over the lines before, without counting them, for what it must remember.
"""

import glob
import logging
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from datetime import tzinfo
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ottla.history.sources.broker_log import broker_log_reader
from ottla.history.sources.client_log import client_log_reader
from ottla.history.sources.evidence import Evidence, Source, SourceError
from ottla.history.sources.log_lines import LogCounts, LogReader
from ottla.text import printable

_LOG: Final = logging.getLogger("ottla.history")
SILENT_S: Final = 2.0
"""How long a pipe is waited for without a word."""
BLOCK_BYTES: Final = 1 << 20
PART_BYTES: Final = 32 << 20
BEFORE_BYTES: Final = 1 << 20
"""What a reader goes over to know what came before: some thousand lines of a coordinator, of seconds to hours."""
SIDE_BY_SIDE_BYTES: Final = 4 * PART_BYTES
"""Less is read before other processes have started."""
WAITING_PARTS: Final = 2
"""Results that may wait for each process, so that memory stays small where few lines are rejected."""
GZIP_MAGIC: Final = b"\x1f\x8b"
WITH_HEADER: Final = 31
"""For zlib: a gzip header is expected, and checked with the sum at its end."""


class Part(NamedTuple):
    """Bytes of one file, those of a gzip file as they are packed: always all. `before`: the file that precedes it in its log.

    `is_pipe`: it is read once, to its end, by the process that opened it.
    """

    source: Source
    log: str
    path: Path
    start: int
    end: int
    before: Path | None
    is_pipe: bool = False


class PartResult(NamedTuple):
    """What one part gave."""

    part: Part
    evidence: Sequence[Evidence]
    counts: LogCounts
    problems: Sequence[str]


def split_file(source: Source, log: str, path: Path, before: Path | None) -> list[Part]:
    """The parts of one file; one for a gzip file, which can only be read from its beginning, and for one that cannot be read."""
    try:
        if not path.is_file():
            return [Part(source, log, path, 0, 0, None, is_pipe=True)]
        with path.open("rb") as file:
            is_whole = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        size = path.stat().st_size
    except OSError:
        is_whole, size = True, 0
    if is_whole or size <= PART_BYTES:
        return [Part(source, log, path, 0, size, before)]
    return [
        Part(source, log, path, start, min(start + PART_BYTES, size), path if start else before) for start in range(0, size, PART_BYTES)
    ]


def read_parts(parts: Sequence[Part], *, zone: tzinfo, processes: int) -> Iterator[PartResult]:
    """Read parts, in their order."""
    if processes < 2 or len(parts) < 2 or sum(part.end - part.start for part in parts) < SIDE_BY_SIDE_BYTES:
        for part in parts:
            yield read_part(part, zone)
        return
    with ProcessPoolExecutor(min(processes, len(parts)), mp_context=get_context("spawn")) as pool:
        pending: list[Future[PartResult]] = []
        for part in parts:
            if part.is_pipe:
                pending.append(Future())
                pending[-1].set_result(read_part(part, zone))
            else:
                pending.append(pool.submit(read_part, part, zone))
            if len(pending) > processes * WAITING_PARTS:
                yield pending.pop(0).result()
        while pending:
            yield pending.pop(0).result()


def read_part(part: Part, zone: tzinfo) -> PartResult:
    """Read one part; what cannot be read of it is a problem."""
    make: Callable[..., LogReader] = broker_log_reader if part.source is Source.BROKER_LOG else client_log_reader
    reader = make(clock=part.log, zone=zone)
    evidence: list[Evidence] = []
    problems: list[str] = []
    _go_over_lines_before(part, reader)
    try:
        with _open(part) as file:
            if part.is_pipe:
                evidence.extend(reader.read_blocks(_piped(file, part.path, problems)))
            elif file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                file.seek(0)
                evidence.extend(reader.read_blocks(_inflated(_blocks(file), part.path, problems)))
            else:
                evidence.extend(reader.read_blocks(lines_between(file, part.start, part.end)))
    except OSError as error:
        problems.append(f"{part.path}: {error.strerror or error}")
    return PartResult(part, evidence, reader.counts, problems)


def _go_over_lines_before(part: Part, reader: LogReader) -> None:
    if part.before is None:
        return
    try:
        if not part.before.is_file():
            return
        with part.before.open("rb", buffering=0) as file:
            end = part.start if part.before == part.path else part.before.stat().st_size
            if file.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
                for _ in reader.read_blocks(lines_between(file, max(0, end - BEFORE_BYTES), end)):
                    pass
    except OSError:
        pass  # it is a problem of the part that has it
    reader.start_counting()


def lines_between(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """The lines that begin at `start` or after it, and before `end`, in blocks."""
    position = file.seek(max(0, start - 1))
    is_inside = start == 0
    while block := file.read(BLOCK_BYTES):
        first = 0
        if not is_inside:
            first = block.find(b"\n") + 1
            is_inside = first > 0
            if not is_inside or position + first >= end:
                position += len(block)
                if position >= end:
                    return
                continue
        last = block.find(b"\n", max(first, end - 1 - position)) + 1 if position + len(block) >= end else 0
        if last:
            yield block[first:last]
            return
        yield block[first:]
        position += len(block)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK_BYTES), b"")


def _open(part: Part) -> BinaryIO:
    """Open its file. A pipe opens when a program writes to it; it says so where that takes long."""
    waiting = threading.Timer(SILENT_S, _LOG.warning, ["%s: waiting for a program that writes to this pipe", printable(str(part.path))])
    waiting.daemon = True
    if part.is_pipe:
        waiting.start()
    try:
        return part.path.open("rb", buffering=0)
    finally:
        waiting.cancel()


def _piped(file: BinaryIO, path: Path, problems: list[str]) -> Iterator[bytes]:
    """What comes out of a pipe, which cannot be read twice."""
    head = b""
    while len(head) < len(GZIP_MAGIC) and (more := file.read(len(GZIP_MAGIC) - len(head))):
        head += more
    blocks = chain((head,), _blocks(file))
    yield from _inflated(blocks, path, problems) if head == GZIP_MAGIC else blocks


def _inflated(blocks: Iterator[bytes], path: Path, problems: list[str]) -> Iterator[bytes]:
    try:
        yield from inflate(blocks)
    except EOFError:
        problems.append(f"{path}: the gzip file is cut: read up to there")
    except zlib.error:
        problems.append(f"{path}: the gzip file is damaged: read up to there")


def inflate(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The content of a gzip file, also of several joined. Raises EOFError at a cut and zlib.error at damage, after what came before."""
    inflater, data = zlib.decompressobj(WITH_HEADER), next(blocks, b"")
    while data:
        yield inflater.decompress(data, BLOCK_BYTES)
        data = inflater.unconsumed_tail
        if inflater.eof:
            data = inflater.unused_data.lstrip(b"\0") or next(blocks, b"").lstrip(b"\0")
            if not data:
                return
            inflater = zlib.decompressobj(WITH_HEADER)
        elif not data:
            data = next(blocks, b"")
    raise EOFError


ROTATED: Final = re.compile(r"(?P<log>.+?)(?:\.(?P<number>\d{1,6})|[.-](?P<date>\d{4}-\d\d-\d\d(?:-\d\d)?))?(?:\.gz)?")


class Log(NamedTuple):
    """One log: its files, the oldest first."""

    source: Source
    name: str
    paths: Sequence[Path]


class LogFiles:
    """Add logs, then read `evidence()` once; `counts` (by log) and `problems` say afterwards what was read and what could not be.

    zone: of times that name none. processes: how many read side by side. progress: called with the bytes that were read of a file.
    """

    def __init__(self, *, zone: tzinfo, processes: int = 1, progress: Callable[[int], None] = lambda _: None) -> None:
        self.counts: dict[str, LogCounts] = {}
        self.problems: list[str] = []
        self._zone = zone
        self._processes = processes
        self._progress = progress
        self._paths: dict[Source, dict[Path, None]] = {Source.BROKER_LOG: {}, Source.CLIENT_LOG: {}}

    def add_broker_logs(self, pattern: str) -> None:
        """Add the files that a name or a pattern stands for. Raises SourceError where there are none."""
        self._paths[Source.BROKER_LOG].update(dict.fromkeys(matching_files(pattern)))

    def add_client_logs(self, pattern: str) -> None:
        """Add the files that a name or a pattern stands for. Raises SourceError where there are none."""
        self._paths[Source.CLIENT_LOG].update(dict.fromkeys(matching_files(pattern)))

    @property
    def size_bytes(self) -> int:
        """Of all files, for the progress."""
        return sum(path.stat().st_size for paths in self._paths.values() for path in paths if path.exists())

    def evidence(self) -> Iterator[Evidence]:
        """All evidence, log by log, each in the order of its lines."""
        for result in read_parts(list(self._parts()), zone=self._zone, processes=self._processes):
            yield from result.evidence
            self.counts[result.part.log] = self.counts.get(result.part.log, LogCounts()) + result.counts
            self.problems += result.problems
            self._progress(result.part.end - result.part.start)

    def _parts(self) -> Iterator[Part]:
        for source, paths in self._paths.items():
            for log in group_rotated(source, list(paths)):
                for before, path in zip([None, *log.paths], log.paths, strict=False):
                    yield from split_file(source, log.name, path, before)


def matching_files(pattern: str) -> list[Path]:
    """The files of a name or a pattern (`*`, `?`, `[]`, `**`). Raises SourceError where there are none."""
    path = Path(pattern)
    if path.is_dir():
        raise SourceError(f"{pattern} is a directory: name its log files, e.g. {path / '*.log*'}")
    matches = [path] if path.exists() else map(Path, sorted(glob.glob(pattern, recursive=True)))
    found = [each for each in matches if not each.is_dir()]
    if not found:
        raise SourceError(f"{pattern}: no such file")
    for each in found:
        if each.is_char_device() or each.is_block_device():
            raise SourceError(f"{each} is a device, which may have no end: name a file or a pipe")
    return found


def group_rotated(source: Source, paths: Sequence[Path]) -> list[Log]:
    """The logs that files belong to. Of one log the file without a number or date is the newest; higher numbers are older."""
    logs: dict[str, list[tuple[tuple[int, str, int], Path]]] = {}
    for path in paths:
        found = ROTATED.fullmatch(path.name)
        if found is None:
            logs.setdefault(str(path), []).append(((1, "", 0), path))
            continue
        number, date = found["number"], found["date"]
        age = (0, date or "", -int(number or 0)) if number or date else (1, "", 0)
        logs.setdefault(str(path.with_name(found["log"])), []).append((age, path))
    return [Log(source, name, [path for _, path in sorted(files)]) for name, files in logs.items()]
