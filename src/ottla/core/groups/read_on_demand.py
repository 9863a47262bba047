"""What groups answer to readers when that may be long: tuples whose items are made one by one while the answer is encoded.

The items are those of the time when the coordinator answers, except the state of a listed group, which is read when its item is made.
"""

from collections.abc import Iterator, Sequence

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.effects import FetchedOffset, ListedGroup
from ottla.core.groups.on_demand import OnDemand
from ottla.core.groups.records import NO_TOPIC_ID, OffsetValue

CLASSIC = "classic"
NO_OFFSET = -1


class FetchedOffsets(OnDemand[FetchedOffset]):
    """The offsets of one topic. `values` are what is committed for `partitions`, None where nothing is."""

    __slots__ = ("_partitions", "_topic_id", "_values")

    def __init__(self, partitions: Sequence[int], values: Sequence[OffsetValue | None], topic_id: bytes) -> None:
        self._partitions = partitions
        self._values = values
        self._topic_id = topic_id

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchedOffset]:
        for partition, value in zip(self._partitions, self._values, strict=True):
            if value is None or _is_of_another_topic(value, self._topic_id):
                yield FetchedOffset(partition=partition, offset=NO_OFFSET, leader_epoch=-1, metadata="", error=ErrorCode.NONE)
            else:
                yield FetchedOffset(
                    partition=partition,
                    offset=value.offset,
                    leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error=ErrorCode.NONE,
                )

    def _make(self) -> tuple[FetchedOffset, ...]:
        return tuple(iter(self))


class ListedGroups(OnDemand[ListedGroup]):
    """The groups that are in one of `states`, in lower case; empty: in any."""

    __slots__ = ("_groups", "_states")

    def __init__(self, groups: Sequence[ClassicGroup], states: frozenset[str]) -> None:
        self._groups = groups
        self._states = states

    def __len__(self) -> int:
        return len(self._make())

    def __iter__(self) -> Iterator[ListedGroup]:
        for group in self._groups:
            if not self._states or group.state.value.lower() in self._states:
                yield ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    state=group.state.value,
                    group_type=CLASSIC,
                )

    def _make(self) -> tuple[ListedGroup, ...]:
        return tuple(iter(self))


def _is_of_another_topic(value: OffsetValue, topic_id: bytes) -> bool:
    """Whether both ids are known and differ: the topic was deleted and made again, and its offsets outlived it."""
    return NO_TOPIC_ID not in (value.topic_id, topic_id) and value.topic_id != topic_id
