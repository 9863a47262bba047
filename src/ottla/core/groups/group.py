"""A group of any type, as far as the coordinator, its events and its snapshots need to know it (Kafka: `Group`).

What a group type adds is in its own package: `classic`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ottla.core.errors import ErrorCode
from ottla.core.groups.timers import Timer

DEAD_STATE = "Dead"
"""The state of a group that is being removed, in every group type."""
UNKNOWN_MS = -1
"""The time of an event that an old record does not contain."""


class Group(ABC):
    """One group. `generation` is the epoch of a group whose type has epochs; `leader` is None in a group that elects none."""

    __slots__ = ("generation", "group_id", "leader", "protocol", "protocol_type", "state_since_ms")

    def __init__(self, group_id: str, *, now_ms: int) -> None:
        self.group_id = group_id
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None

    @property
    @abstractmethod
    def group_type(self) -> str:
        """The type as ListGroups names it: `classic` or `consumer`."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as Kafka names it on the wire."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members and is not being removed."""

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether the group is being removed; its offsets are no longer served."""

    @property
    @abstractmethod
    def delete_group_error(self) -> ErrorCode:
        """What DeleteGroups is answered; NONE allows it."""

    @property
    @abstractmethod
    def delete_offsets_error(self) -> ErrorCode:
        """What OffsetDelete is answered; NONE allows it for topics without a subscriber."""

    @property
    @abstractmethod
    def can_expire_offsets(self) -> bool:
        """Whether retention applies to the group's offsets in its present state."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes `topic`, or may, because its subscription is not known."""

    @abstractmethod
    def parked_requests(self) -> Iterable[int]:
        """The `reply_to` of every parked request."""

    @abstractmethod
    def timers(self) -> Iterable[Timer]:
        """Every timer that the group may have armed."""

    @property
    def empty_since_ms(self) -> int | None:
        """When the last member left: from then on `offsets.retention.minutes` counts (KIP-211).

        None where it counts from each commit: the group has members, or no protocol type, or a record without the time.
        """
        if self.protocol_type is None or not self.is_empty or self.state_since_ms == UNKNOWN_MS:
            return None
        return self.state_since_ms
