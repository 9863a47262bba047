"""What logs of brokers and of clients have in common: how lines are chosen and timed, and what a client's reason says of the cause.

Most lines of a log are not about groups. They are rejected as bytes, in whole chunks, before anything is decoded. Times are found in the
layouts of Log4j, Python's logging, Docker, Kubernetes, journald and librdkafka. A time of day without a date is no time, and neither is
syslog's `Nov 22 14:31:07`, which names no year.

Reasons are those of Apache Kafka's Java clients (KIP-800). Anyone may send any text: one that is not known leaves the candidates open.
Members of `ottla.Consumer` add what they measured, in brackets, which is read where Java's text leaves several causes of a removal open.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from ottla.groups.events import NO_REASON
from ottla.groups.reason_evidence import HEARTBEATS_MISSING, POLLED_LATE, evidence_in
from ottla.history.sources.evidence import Cause, Evidence, Source


class Skip(StrEnum):
    """Why a line was skipped, in the words of a message."""

    TOO_LONG = "too long"
    BINARY = "binary"
    NO_TIME = "no time, or no date"
    UNKNOWN_FORMAT = "unknown format"
    """It looks like a line about groups and is none that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCounts:
    """The lines of one log, or of several (`+`). Lines that are neither understood nor skipped are not about groups.

    understood: lines whose message is known, whether they are evidence or not. mentions_kafka: whether the log has Kafka's name in it.
    """

    lines: int = 0
    understood: int = 0
    evidence: int = 0
    skipped: Mapping[Skip, int] = field(default_factory=dict)
    mentions_kafka: bool = False

    def __add__(self, other: "LogCounts") -> "LogCounts":
        """Both logs together."""
        return LogCounts(
            lines=self.lines + other.lines,
            understood=self.understood + other.understood,
            evidence=self.evidence + other.evidence,
            skipped={skip: count for skip in Skip if (count := self.skipped.get(skip, 0) + other.skipped.get(skip, 0))},
            mentions_kafka=self.mentions_kafka or other.mentions_kafka,
        )

    def __str__(self) -> str:
        """A sentence without its subject, e.g. "not a Kafka log: 0 of 12,000 lines were understood"."""
        start = ""
        if not self.understood and not self.skipped:
            start = "no lines about groups: " if self.mentions_kafka else "not a Kafka log: "
        text = f"{start}{self.understood:,} of {self.lines:,} lines were understood"
        reasons = ", ".join(f"{count:,} {skip}" for skip, count in self.skipped.items())
        return f"{text}; skipped: {reasons}" if reasons else text


ISO_TIME: Final = re.compile(
    r"(?<!\d)(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:\s?(Z)(?![A-Za-z])|\s?([+-]\d\d):?(\d\d)(?!\d))?",
)
EPOCH_SECONDS: Final = re.compile(r"%\d\|(\d{9,11})\.(\d{3})\|")
"""How librdkafka's log callback writes to stderr: `%4|1763800000.123|MAXPOLL|...`."""

ZONE_STEP_MS: Final = 15 * 60_000
"""Time zones differ by multiples of a quarter of an hour."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)


class LogClock:
    """Reads times of one log in milliseconds since 1970; `zone` is for those that name none.

    In the hour that a change to winter time repeats, a time without a zone is taken as the first of the two.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._minute = ""
        self._minute_ms = 0

    def minute_ms(self, minute: str) -> int | None:
        """The time of `2026-11-22 14:31`, remembered: lines come in the order of time. None where there is no such minute."""
        if minute != self._minute:
            try:
                local = datetime(
                    int(minute[:4]), int(minute[5:7]), int(minute[8:10]), int(minute[11:13]), int(minute[14:16]), tzinfo=self._zone
                )
                self._minute_ms = (local - EPOCH) // MILLISECOND
            except (ValueError, OverflowError):
                return None
            self._minute = minute
        return self._minute_ms

    def find_ms(self, head: str) -> int | None:
        """The time in what precedes a message, None where there is none.

        A line that a collector wrapped has two. The last is the program's own and the more exact one; where only the collector's has a
        zone, that says which zone the program's is in.
        """
        epoch = EPOCH_SECONDS.search(head)
        if epoch is not None:
            return int(epoch[1]) * 1000 + int(epoch[2])
        own_ms = zoned_ms = None
        is_zoned = False
        for found in ISO_TIME.finditer(head):
            at_ms, is_zoned = self._parse(found)
            if at_ms is None:
                continue
            own_ms = at_ms
            zoned_ms = at_ms if is_zoned else zoned_ms
        if own_ms is not None and zoned_ms is not None and not is_zoned:
            return own_ms - round((own_ms - zoned_ms) / ZONE_STEP_MS) * ZONE_STEP_MS
        return own_ms

    def _parse(self, found: re.Match[str]) -> tuple[int | None, bool]:
        year, month, day, hour, minute, second, fraction, zulu, zone_hours, zone_minutes = found.groups()
        within_ms = int(second) * 1000 + int(((fraction or "") + "000")[:3])
        minute_text = f"{year}-{month}-{day} {hour}:{minute}"
        if zulu is None and zone_hours is None:
            start_ms = self.minute_ms(minute_text)
            return (None if start_ms is None else start_ms + within_ms), False
        try:
            start = datetime(int(year), int(month), int(day), int(hour), int(minute), tzinfo=UTC)
        except ValueError:
            return None, True
        offset_ms = 0
        if zone_hours is not None:
            sign = -1 if zone_hours[0] == "-" else 1
            offset_ms = sign * (int(zone_hours[1:]) * 60 + int(zone_minutes)) * 60_000
        return (start - EPOCH) // MILLISECOND + within_ms - offset_ms, True


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
    size = len(chunk)
    places = [at if (at := chunk.find(needle)) >= 0 else size for needle in needles]
    while (at := min(places)) < size:
        start = chunk.rfind(b"\n", 0, at) + 1
        end = chunk.find(b"\n", at)
        end = size if end < 0 else end
        yield chunk[start : end - 1 if chunk[end - 1 : end] == b"\r" else end]
        for number, place in enumerate(places):
            if place < end:
                places[number] = at if (at := chunk.find(needles[number], end)) >= 0 else size


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


class Meaning(NamedTuple):
    """The cause, if the text names one, else those that it cannot tell apart; both empty where it says nothing of a cause."""

    trigger: str | None = None
    candidates: tuple[str, ...] = ()


NOTHING: Final = Meaning()

ANY_LEAVE: Final = Meaning(None, (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC))
"""Every client but Java's leaves without a reason; so does every member of KIP-848."""
ADMIN_OR_CLIENT: Final = Meaning(None, (Cause.ADMIN, Cause.LEAVE_CLOSE))
ANY_REJOIN: Final = Meaning(None, (Cause.SUBSCRIPTION, Cause.TOPIC_CHANGE, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS))
REMOVED_BEFORE: Final = Meaning(None, (Cause.EXPIRE_HEARTBEAT, Cause.POLL_TIMEOUT, Cause.JOIN_TIMEOUT))
"""The coordinator does not know the member any more."""

LEAVE_TEXTS: Final = (
    ("the consumer is being closed", Meaning(Cause.LEAVE_CLOSE)),
    ("the consumer unsubscribed from all topics", Meaning(Cause.LEAVE_CLOSE)),
    ("consumer poll timeout has expired", Meaning(Cause.POLL_TIMEOUT)),
    ("worker poll timeout has expired", Meaning(Cause.POLL_TIMEOUT)),
    ("taking too long to read the log", Meaning(Cause.POLL_TIMEOUT)),
    ("member was removed by an admin", Meaning(Cause.ADMIN)),
    (NO_REASON, ANY_LEAVE),
)

LEFT_BY_ITSELF: Final = "consumer pro-actively leaving the group"
REMOVED_TEXTS: Final = ("encountered UNKNOWN_MEMBER_ID ", "encountered ILLEGAL_GENERATION ")

JOIN_TEXTS: Final = (
    ("need to re-join with the given member-id", NOTHING),
    ("group is already rebalancing", NOTHING),
    ("cached metadata has changed", Meaning(Cause.TOPIC_CHANGE)),
    ("subscription has changed", Meaning(Cause.SUBSCRIPTION)),
    ("received assignment does not match the current subscription", Meaning(Cause.SUBSCRIPTION)),
    ("received assignment ", Meaning(Cause.SUBSCRIPTION)),
    ("need to revoke partitions", Meaning(Cause.COOP_FOLLOWUP)),
    ("triggered followup rebalance scheduled", Meaning(Cause.COOP_FOLLOWUP)),
    ("rebalance enforced by user", Meaning(Cause.ENFORCED)),
    ("connect worker requested rejoin", Meaning(Cause.ENFORCED)),
    ("Shutdown requested", Meaning(Cause.ENFORCED)),
    ("Active tasks corrupted", Meaning(Cause.ENFORCED)),
    ("offset commit failed since group is already rebalancing", NOTHING),
    (LEFT_BY_ITSELF, Meaning(None, (Cause.POLL_TIMEOUT, Cause.SUBSCRIPTION, Cause.RESTART_DYNAMIC))),
    ("encountered FENCED_INSTANCE_ID ", Meaning(Cause.STATIC_FENCED)),
    *((text, REMOVED_BEFORE) for text in REMOVED_TEXTS),
    (NO_REASON, ANY_REJOIN),
)

FAILED_REBALANCE: Final = "rebalance failed due to "
EXCEPTION: Final = re.compile(r"(\w+)Exception\b")
COORDINATOR_ERRORS: Final = frozenset({"CoordinatorLoadInProgress", "CoordinatorNotAvailable", "NotCoordinator", "Disconnect"})


def leave_meaning(client_reason: str) -> Meaning:
    """What the reason of a LeaveGroup says. An administrator's own text is not told apart from a client's."""
    for text, meaning in LEAVE_TEXTS:
        if client_reason.startswith(text):
            return meaning
    return ADMIN_OR_CLIENT if client_reason else ANY_LEAVE


def rejoin_meaning(client_reason: str) -> Meaning:
    """What the reason says with which a member joins again. An application's text for `enforceRebalance` may be any."""
    for text, meaning in JOIN_TEXTS:
        if client_reason.startswith(text):
            return _measured(client_reason, meaning)
    if client_reason.startswith(FAILED_REBALANCE):
        return _failure_meaning(client_reason)
    return Meaning(None, (Cause.ENFORCED, *ANY_REJOIN.candidates)) if client_reason else ANY_REJOIN


def first_join_meaning(client_reason: str) -> Meaning:
    """What the reason says with which a new member joins: it may be new, or one that comes back."""
    meaning = NOTHING if client_reason in ("", NO_REASON) else rejoin_meaning(client_reason)
    is_return = meaning == REMOVED_BEFORE or client_reason.startswith((LEFT_BY_ITSELF, *REMOVED_TEXTS))
    return meaning if is_return else Meaning(None, (Cause.JOIN_NEW, Cause.COLD_START, Cause.RESTART_DYNAMIC))


def _measured(client_reason: str, meaning: Meaning) -> Meaning:
    """What a member measured narrows down why it had been removed."""
    cause = evidence_in(client_reason)
    if meaning == REMOVED_BEFORE and cause in HEARTBEATS_MISSING:
        return Meaning(Cause.EXPIRE_HEARTBEAT)
    if meaning == REMOVED_BEFORE and cause in POLLED_LATE:
        return Meaning(None, (Cause.JOIN_TIMEOUT, Cause.POLL_TIMEOUT))
    return Meaning(Cause.POLL_TIMEOUT) if cause is not None and client_reason.startswith(LEFT_BY_ITSELF) else meaning


def _failure_meaning(error: str) -> Meaning:
    names = EXCEPTION.findall(error)
    name = names[-1] if names else ""
    if name in COORDINATOR_ERRORS:
        return Meaning(Cause.COORDINATOR_MOVE)
    if name == "FencedInstanceId":
        return Meaning(Cause.STATIC_FENCED)
    if name in ("UnknownMemberId", "IllegalGeneration"):
        return REMOVED_BEFORE
    return NOTHING
