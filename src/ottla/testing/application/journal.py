"""The group events of a broker under test, as they were published: the last ones of each group, and every partition that it has owned."""

from collections import deque
from collections.abc import Callable, Set
from typing import Final

from ottla.groups.events import GroupEvent
from ottla.protocol.model import TopicPartition

EVENTS_MAX: Final = 10_000
"""Of one group; no test looks at more."""


class Journal:
    """Keeps events, and passes them on to the callback that the test gave. `add` is called in the broker's thread."""

    def __init__(self, callback: Callable[[GroupEvent], None] | None) -> None:
        self._callback = callback
        self._events: dict[str, deque[GroupEvent]] = {}
        self._owned: dict[str, set[TopicPartition]] = {}

    def add(self, event: GroupEvent) -> None:
        """Keep an event."""
        self._events.setdefault(event.group, deque(maxlen=EVENTS_MAX)).append(event)
        if event.kind == "sync_completed":
            assignments = [member.assignment for member in event.members]
            owned = {TopicPartition(topic, number) for topics in assignments for topic, numbers in topics.items() for number in numbers}
            self._owned.setdefault(event.group, set()).update(owned)
        if self._callback is not None:
            self._callback(event)

    def of_group(self, group_id: str) -> tuple[GroupEvent, ...]:
        """The events of a group, oldest first. In the broker's thread."""
        return tuple(self._events.get(group_id, ()))

    def owned_by(self, group_id: str) -> Set[TopicPartition]:
        """Every partition that a member of the group has owned. In the broker's thread."""
        return self._owned.get(group_id, frozenset())
