"""`--offset`: where reading begins, as text and as an offset of each partition."""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.groups.times import parse_datetime_ms
from ottla.client.consumer.topic_partition import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, TopicPartition
from ottla.core.client.consumer.engine import TAIL_BASE
from ottla.core.model import TopicPartition as Partition

_NUMBER_MAX: Final = 2**62


class StartKind(Enum):
    """What the number of a `Start` means."""

    BEGINNING = "beginning"
    END = "end"
    STORED = "stored"
    OFFSET = "an offset"
    BEFORE_END = "so many records before the end"
    TIME = "the first record at or after a time"


class Start(NamedTuple):
    """Where to begin. `number`: an offset, a count of records, or milliseconds since 1970."""

    kind: StartKind
    number: int = 0


BEGINNING: Final = Start(StartKind.BEGINNING)
END: Final = Start(StartKind.END)
STORED: Final = Start(StartKind.STORED)
_WORDS: Final = {"beginning": BEGINNING, "end": END, "stored": STORED}


class Lookup(Protocol):
    """What of a consumer this asks."""

    def offsets_for_times(self, partitions: Sequence[Any], timeout: float | None = None) -> list[TopicPartition]: ...
    def get_watermark_offsets(self, partition: Any, timeout: float | None = None) -> tuple[int, int] | None: ...


def parse_start(text: str) -> Start:
    """A start from beginning, end, stored, N, -N or @TIMESTAMP. Raises ValueError with a sentence."""
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith("@"):
        return Start(StartKind.TIME, _time_ms(text[1:]))
    if not re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII) or abs(int(text)) > _NUMBER_MAX:
        raise ValueError(f"{text!r} is none of beginning, end, stored, N, -N and @TIMESTAMP")
    number = int(text)
    return Start(StartKind.BEFORE_END, -number) if text.startswith("-") else Start(StartKind.OFFSET, number)


def _time_ms(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return int(text)
    try:
        return parse_datetime_ms(text)
    except CommandFailed as error:
        raise ValueError(f"@{text}: write milliseconds since 1970 or YYYY-MM-DDThh:mm:ss.sss (UTC, or with a zone as +02:00)") from error


def assignments(partitions: Sequence[Partition], start: Start, lookup: Lookup, *, timeout_s: float) -> list[TopicPartition]:
    """Every partition with the offset to begin at. Raises CommandFailed for an offset behind the end, and what `lookup` raises."""
    match start.kind:
        case StartKind.TIME:
            return lookup.offsets_for_times([TopicPartition(*each, start.number) for each in partitions], timeout_s)
        case StartKind.OFFSET:
            return [_at_offset(each, start.number, lookup, timeout_s) for each in partitions]
        case StartKind.BEFORE_END:
            offset = TAIL_BASE - start.number
        case StartKind.BEGINNING:
            offset = OFFSET_BEGINNING
        case StartKind.END:
            offset = OFFSET_END
        case StartKind.STORED:
            offset = OFFSET_STORED
    return [TopicPartition(*each, offset) for each in partitions]


def _at_offset(partition: Partition, offset: int, lookup: Lookup, timeout_s: float) -> TopicPartition:
    """The offset itself: one below the log start is reset by the consumer, to the first record."""
    found = lookup.get_watermark_offsets(TopicPartition(*partition), timeout_s)
    assert found is not None
    if offset > found[1]:
        raise CommandFailed(f"{partition.topic}-{partition.partition} ends at offset {found[1]}: there is no offset {offset} to begin at")
    return TopicPartition(*partition, offset)
