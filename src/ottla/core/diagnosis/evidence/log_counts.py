"""What became of the lines of a log: how many were read, understood and skipped, with the reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
