"""Parts of log files, which several processes may read side by side: each gives the same, however many there are.

A part has the lines that begin in it. Its reader first goes over the lines before, without counting them, for what it must remember.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from datetime import tzinfo
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ottla.core.diagnosis.evidence.broker_log.parser import broker_log_reader
from ottla.core.diagnosis.evidence.client_log.parser import client_log_reader
from ottla.core.diagnosis.evidence.log_counts import LogCounts
from ottla.core.diagnosis.evidence.log_reading import LogReader
from ottla.core.diagnosis.evidence.model import Evidence, Source

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
    """Bytes of one file, those of a gzip file as they are packed: always all. `before`: the file that precedes it in its log."""

    source: Source
    log: str
    path: Path
    start: int
    end: int
    before: Path | None


class PartResult(NamedTuple):
    """What one part gave."""

    part: Part
    evidence: Sequence[Evidence]
    counts: LogCounts
    problems: Sequence[str]


def split_file(source: Source, log: str, path: Path, before: Path | None) -> list[Part]:
    """The parts of one file; one for a gzip file, which can only be read from its beginning, and for one that cannot be read."""
    try:
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
        with part.path.open("rb", buffering=0) as file:
            if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                file.seek(0)
                evidence.extend(reader.read_blocks(_inflated(file, part.path, problems)))
            else:
                evidence.extend(reader.read_blocks(lines_between(file, part.start, part.end)))
    except OSError as error:
        problems.append(f"{part.path}: {error.strerror or error}")
    return PartResult(part, evidence, reader.counts, problems)


def _go_over_lines_before(part: Part, reader: LogReader) -> None:
    if part.before is None:
        return
    try:
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


def _inflated(file: BinaryIO, path: Path, problems: list[str]) -> Iterator[bytes]:
    try:
        yield from inflate(iter(lambda: file.read(BLOCK_BYTES), b""))
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
