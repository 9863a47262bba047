"""Replaces by names what differs between two brokers' responses: member ids, topic ids, ports.

A member id becomes its prefix with a number, in the order in which the ids with this prefix first occurred, so that prefixes are
compared. Names in requests are replaced by the broker's ids. Nothing else is changed.
"""

import dataclasses
import datetime
import re
import uuid
from collections.abc import Mapping
from typing import Any

MEMBER_ID = re.compile(r"^(.*)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.DOTALL)
LEFT_OUT = {"port"}
UNORDERED = {"topics", "partitions", "results"}
"""Clients look these up by name; Apache Kafka puts what it refuses first, or last, or asks a hash map."""


class Masks:
    """The names of one broker's ids; `topic_ids` are the ids that it gave to the topics of a script."""

    def __init__(self, topic_ids: Mapping[str, uuid.UUID]) -> None:
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._topics = {f"<id of {topic}>": topic_id for topic, topic_id in topic_ids.items()}
        self._topic_names = {topic_id: name for name, topic_id in self._topics.items()}

    def name_member(self, member_id: str) -> str:
        """The name of a member id, given to it now if it is new; a text that is no drawn id is its own name."""
        known = self._names.get(member_id)
        if known is not None:
            return known
        drawn = MEMBER_ID.match(member_id)
        if drawn is None:
            return member_id
        prefix = drawn.group(1)
        self._counts[prefix] = self._counts.get(prefix, 0) + 1
        name = f"{prefix}-<{self._counts[prefix]}>"
        self._names[member_id], self._ids[name] = name, member_id
        return name

    def topic_id(self, topic_id: uuid.UUID) -> str:
        """The name of a topic's id."""
        return self._topic_names.get(topic_id, str(topic_id))

    def real(self, value: Any) -> Any:
        """Values to send, with this broker's ids in place of their names."""
        if isinstance(value, str):
            return self._topics.get(value) or self._ids.get(value, value)
        if isinstance(value, Mapping):
            return {name: self.real(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.real(each) for each in value]
        return value

    def masked(self, value: Any) -> Any:
        """An answer as plain values, with names in place of ids; members are put in order, since Kafka promises none."""
        if dataclasses.is_dataclass(value):
            return {each.name: self.masked_field(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)}
        if isinstance(value, str):
            return self.name_member(value)
        if isinstance(value, tuple):
            return [self.masked(each) for each in value]
        if isinstance(value, uuid.UUID):
            return self.topic_id(value)
        if isinstance(value, datetime.timedelta):
            return value // datetime.timedelta(milliseconds=1)
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return int(value)

    def masked_field(self, field: str, value: Any) -> Any:
        """One field of an answer."""
        if field in LEFT_OUT:
            return f"<{field}>"
        if field == "members" and value and not hasattr(value[0], "error_code"):
            return self._members(value)
        if field in UNORDERED and value is not None:
            return sorted(self.masked(value), key=repr)
        return self.masked(value)

    def _members(self, members: tuple[Any, ...]) -> list[Any]:
        unknown = [each for each in members if each.member_id not in self._names]
        for each in sorted(unknown, key=_without_the_drawn_part):
            self.name_member(each.member_id)
        return sorted((self.masked(each) for each in members), key=lambda each: str(each["member_id"]))


def _without_the_drawn_part(member: Any) -> str:
    drawn = MEMBER_ID.match(member.member_id)
    prefix = drawn.group(1) if drawn else member.member_id
    fields = [repr(getattr(member, each.name)) for each in dataclasses.fields(member) if each.name != "member_id"]
    return repr((prefix, fields))
