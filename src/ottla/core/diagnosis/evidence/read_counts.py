"""What reading the offsets topic met, in figures: records by type, and what was skipped and why."""

from collections import Counter
from dataclasses import dataclass, field

RECORD_TYPE_NAMES = {
    0: "OffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
    **dict.fromkeys(range(9, 16), "ShareGroup"),
    **dict.fromkeys((17, *range(19, 24)), "StreamsGroup"),
}
"""By the number that a record's key begins with; all types of share groups, and of streams groups, count together."""
UNKNOWN = "unknown"


@dataclass(slots=True)
class ReadCounts:
    """`record_types`: records by name. `unreadable_records`: bytes that are no record of the topic, or a value of a later version.

    `damaged_batches`: a wrong checksum, or records that cannot be read. `torn_bytes`: at the end of files, as of a batch that was being
    written. `aborted_records` are of aborted transactions, `pending_records` of those that have no end in what was read; neither counts.
    """

    records: int = 0
    record_types: Counter[str] = field(default_factory=Counter)
    unreadable_records: int = 0
    damaged_batches: int = 0
    torn_bytes: int = 0
    aborted_records: int = 0
    pending_records: int = 0

    def count_type(self, record_type: int) -> None:
        """Count a record by the number of its type."""
        self.record_types[RECORD_TYPE_NAMES.get(record_type, UNKNOWN)] += 1

    def to_dict(self) -> dict[str, int | dict[str, int]]:
        """The figures, for JSON."""
        return {
            "records": self.records,
            "record_types": dict(sorted(self.record_types.items())),
            "unreadable_records": self.unreadable_records,
            "damaged_batches": self.damaged_batches,
            "torn_bytes": self.torn_bytes,
            "aborted_records": self.aborted_records,
            "pending_records": self.pending_records,
        }
