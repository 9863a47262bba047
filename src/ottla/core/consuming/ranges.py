"""What a client asks for and what it is given: ranges of offsets, and the record batches of an answer. Values without behaviour."""

from typing import NamedTuple

from ottla.core.model import TopicPartition


class FetchRange(NamedTuple):
    """The records of one partition with start <= offset < end. `topic_id` is Kafka's base64 text of 22 letters, "" if not known."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: str = ""


class FetchedRecords(NamedTuple):
    """Whole record batches (read-only bytes) that hold every record of `partition` with position <= offset < next_offset.

    They come as the broker gave them: the first one may begin before `position`, and the last ones may lie behind the range that was asked
    for. A range has been read when `next_offset` reaches its end; where nothing is left up to there, `records` are empty. `aborted`: pairs
    of producer id and first offset of transactions that were aborted, in the order of their offsets; empty unless only committed records
    are read.
    """

    partition: TopicPartition
    position: int
    next_offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...] = ()
