"""Reads the lines of one log into evidence: chooses the lines to look at, finds their time, counts what became of each.

Most lines of a log are not about groups. They are rejected as bytes, in whole chunks, before anything is decoded.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Any, Final, Protocol

from ottla.core.diagnosis.evidence.log_counts import LogCounts, Skip
from ottla.core.diagnosis.evidence.log_times import LogClock
from ottla.core.diagnosis.evidence.model import Evidence, Source

LINE_BYTES_MAX: Final = 1_000_000
"""A longer line is skipped. The longest that Kafka writes lists the members of a group: 100 bytes for each."""

MESSAGE_FIELDS: Final = ("log", "message", "MESSAGE", "msg")
TIME_FIELDS: Final = ("time", "@timestamp", "timestamp", "ts", "asctime")
JOURNAL_TIME_FIELD: Final = "__REALTIME_TIMESTAMP"
"""In `journalctl --output=json`: microseconds since 1970, as text."""

DEFAULT_LAYOUT: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d):(\d\d),(\d{3})\] [A-Z]{4,7} ", re.ASCII)
"""What precedes the message in nearly all lines of brokers: `[2026-11-22 14:31:07,123] INFO `."""
USUAL_LOGGER: Final = " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
LOGGER: Final = re.compile(r" \((?:[A-Za-z_$][\w$]*\.)+[\w$]+\)\s*$")
LOGGER_LENGTH_MAX: Final = 300

Facts = dict[str, Any]
"""Fields of `Evidence` that a message gives; the reader adds the time, the source and the clock."""


class Parser(Protocol):
    """Understands the messages of one kind of log. It may remember what earlier lines said.

    needles: a line that holds none of them is not looked at.
    """

    source: Source
    needles: Sequence[bytes]

    def find(self, text: str) -> int:
        """Where the message begins in a line; -1 where there is none: the line is another program's."""

    def parse(self, message: str) -> Sequence[Facts] | None:
        """What the message says, nothing for one that is known and no evidence, None for one that is not known."""


class LogReader:
    """Reads one log. `clock` names whose clock it is of, e.g. its path; `zone` is for times that name none. `counts` grows meanwhile."""

    def __init__(self, *, parser: Parser, clock: str, zone: tzinfo) -> None:
        self._parser = parser
        self._clock_name = clock
        self._clock = LogClock(zone)
        self._lines = 0
        self._understood = 0
        self._evidence = 0
        self._mentions_kafka = False
        self._skipped: dict[Skip, int] = {}

    @property
    def counts(self) -> LogCounts:
        """What became of the lines that were read so far."""
        return LogCounts(
            lines=self._lines,
            understood=self._understood,
            evidence=self._evidence,
            skipped=dict(self._skipped),
            mentions_kafka=self._mentions_kafka,
        )

    def read(self, lines: Iterable[str | bytes]) -> Iterator[Evidence]:
        """Read lines, with or without their ends."""
        for line in lines:
            yield from self.read_chunk((line.encode(errors="replace") if isinstance(line, str) else line) or b"\n")

    def read_chunk(self, chunk: bytes) -> Iterator[Evidence]:
        """Read whole lines; only the last may lack its end."""
        self._lines += chunk.count(b"\n") + (not chunk.endswith(b"\n") and chunk != b"")
        if not self._mentions_kafka:
            self._mentions_kafka = b"kafka" in chunk
        for line in matching_lines(chunk, self._parser.needles):
            yield from self._read_line(line)

    def read_blocks(self, blocks: Iterable[bytes]) -> Iterator[Evidence]:
        """Read a file in blocks, cut anywhere. A line that is too long is counted and not held."""
        for chunk in whole_lines(blocks):
            if chunk is None:
                self.skip(Skip.TOO_LONG)
            else:
                yield from self.read_chunk(chunk)

    def start_counting(self) -> None:
        """Count from here: what was read before was read only to be remembered."""
        self._lines = self._understood = self._evidence = 0
        self._mentions_kafka = False
        self._skipped = {}

    def skip(self, reason: Skip) -> None:
        """Count a line that was not read, e.g. because it was too long to hold."""
        self._lines += 1
        self._count(reason)

    def _count(self, reason: Skip) -> None:
        self._skipped[reason] = self._skipped.get(reason, 0) + 1

    def _read_line(self, line: bytes) -> Sequence[Evidence]:
        if len(line) > LINE_BYTES_MAX or b"\0" in line:
            self._count(Skip.TOO_LONG if len(line) > LINE_BYTES_MAX else Skip.BINARY)
            return ()
        text = line.decode(errors="replace")
        outer = ""
        if text[:1] == "{":
            outer, text = unwrap_json(text)
        start = self._parser.find(text)
        if start < 0:
            return ()
        facts = self._parser.parse(text[start:])
        if facts is None:
            self._count(Skip.UNKNOWN_FORMAT)
            return ()
        at_ms = self._time_ms(outer, text[:start])
        if at_ms is None:
            self._count(Skip.NO_TIME)
            return ()
        self._understood += 1
        self._evidence += len(facts)
        source, clock = self._parser.source, self._clock_name
        return [Evidence(at_ms=at_ms, source=source, clock=clock, **fact) for fact in facts]

    def _time_ms(self, outer: str, head: str) -> int | None:
        """The time of a message that `head` precedes; `outer` has the times of what it was wrapped in."""
        default = None if outer else DEFAULT_LAYOUT.fullmatch(head)
        if default is None:
            return self._clock.find_ms(f"{outer}{head}")
        minute_ms = self._clock.minute_ms(default[1])
        return None if minute_ms is None else minute_ms + int(default[2]) * 1000 + int(default[3])


def matching_lines(chunk: bytes, needles: Sequence[bytes]) -> Iterator[bytes]:
    """The lines that hold one of the needles, without their ends, each once, in order."""
    found = {needle: chunk.find(needle) for needle in needles}
    while (at := max(found.values()) if len(found) == 1 else min((at for at in found.values() if at >= 0), default=-1)) >= 0:
        start = chunk.rfind(b"\n", 0, at) + 1
        end = chunk.find(b"\n", at)
        end = len(chunk) if end < 0 else end
        yield chunk[start : end - 1 if chunk[end - 1 : end] == b"\r" else end]
        for needle, position in found.items():
            if 0 <= position < end:
                found[needle] = chunk.find(needle, end)


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Cut blocks at the ends of lines; None for each line that is longer than `LINE_BYTES_MAX` and spans blocks."""
    rest, is_dropping = b"", False
    for block in blocks:
        start = 0
        if is_dropping:
            start = block.find(b"\n") + 1
            if not start:
                continue
            is_dropping = False
        end = block.rfind(b"\n") + 1
        if end > start:
            yield rest + block[start:end]
            rest, start = b"", end
        rest += block[start:]
        if len(rest) > LINE_BYTES_MAX:
            rest, is_dropping = b"", True
            yield None
    if rest:
        yield rest


def without_logger(message: str) -> str:
    """The message without the logger's name, with which the layout of Kafka's distribution ends a line."""
    if message.endswith(USUAL_LOGGER):
        return message[: -len(USUAL_LOGGER)]
    logger = LOGGER.search(message, max(0, len(message) - LOGGER_LENGTH_MAX))
    return (message if logger is None else message[: logger.start()]).rstrip()


def unwrap_json(line: str) -> tuple[str, str]:
    """The times and the message of a line that a collector wrote as JSON; the line itself where it is no such JSON."""
    try:
        wrapped = json.loads(line)
    except (ValueError, RecursionError):
        return "", line
    message = next((wrapped[name] for name in MESSAGE_FIELDS if isinstance(wrapped.get(name), str)), None)
    if message is None:
        return "", line
    times = " ".join(wrapped[name] for name in TIME_FIELDS if isinstance(wrapped.get(name), str))
    journal = wrapped.get(JOURNAL_TIME_FIELD)
    if isinstance(journal, str) and journal.isdecimal() and journal.isascii() and len(journal) > 6:
        times += f" %6|{journal[:-6][-11:]}.{journal[-6:-3]}|"
    return f"{times} ", message.rstrip("\n")
