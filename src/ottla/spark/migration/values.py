"""Values of a migration that all its parts share, on the driver and in the workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from ottla.client.settings import ClientSettings
from ottla.spark.sink.producer_settings import ProducerSettings

SOURCE_HEADER: Final = "ottla.migrate.source"
"""The header of every copied record: TOPIC:PARTITION:OFFSET of the record in the source. It is the record's last one."""

MURMUR2, CRC32 = "murmur2", "crc32"
"""How producers choose partitions: murmur2 as the Java client and kafka-python do, crc32 as librdkafka (consistent_random)."""

NOTHING: Final = -1
"""The highest source offset in a target partition that has no record of a source partition."""

RECORDS_MAX: Final = 1_000_000
"""Offsets of a batch, where no other number is given."""


class MigrationError(Exception):
    """A migration that cannot continue: the message says why, and what to do. Copied records stay."""


class Extent(NamedTuple):
    """Offsets of a partition: start <= offset < end."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start

    def cut_at(self, offsets: Sequence[int]) -> "list[Extent]":
        """The parts before, between and behind these offsets, which rise; some may be empty."""
        inside = (min(max(offset, self.start), self.end) for offset in offsets)
        return [Extent(*part) for part in pairwise([self.start, *inside, self.end])]


class Progress(NamedTuple):
    """How far a migration is: offsets of the source that were read, all that are to be read, and what it waits for ("": nothing).

    `replay`: where a live topic is followed, how many records each group would read again if its offsets were carried over now; None where
    that is not known. `doing`: a step before or after that.
    """

    done: int
    total: int
    waits_for: str = ""
    replay: Mapping[str, int] | None = None
    doing: str = ""


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How to reach a cluster: the settings of requests and reads, and those of the producers of tasks."""

    client: ClientSettings
    producer: ProducerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A migration of `source` into `target`, which is made with `partitions` partitions where it does not exist.

    `groups` None: every group with committed offsets for the source. `records_max`: offsets of a batch.
    """

    source_cluster: Cluster
    target_cluster: Cluster
    source: str
    target: str
    partitions: int | None = None
    groups: tuple[str, ...] | None = None
    partitioner: str = MURMUR2
    records_max: int = RECORDS_MAX
