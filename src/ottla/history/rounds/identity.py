"""Who a member is: the ids that sources give, and the name under which the same client is known after it returns."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.groups.events import EventMember
from ottla.history.sources.model import Evidence, name_in_member_id

_DEFAULT_NAME: Final = re.compile(r"rdkafka|sarama|kafkajs|kgo|console-consumer|kafka-python-\d.*|aiokafka-\d.*|consumer-.*-\d+")
"""Client ids that libraries use where none is set: many members of a group may have one."""


class Identity(NamedTuple):
    """What is known of a member; None where no source says it."""

    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None

    @property
    def name(self) -> str | None:
        """What the member and its successors after a restart have in common: instance id or client id; None if neither is known."""
        if self.instance_id is not None:
            return self.instance_id
        if self.client_id is not None:
            return self.client_id
        return name_in_member_id(self.member_id)

    @property
    def has_default_name(self) -> bool:
        """Whether its name is the one that a client library gives to every consumer, or to the nth of each process."""
        name = self.name
        return name is not None and self.instance_id is None and _DEFAULT_NAME.fullmatch(name) is not None

    @property
    def label(self) -> str:
        """The shortest text that people recognise the member by."""
        return self.name or self.member_id or "a member"

    def is_same_client(self, other: "Identity") -> bool:
        """Whether both may be the same client: the same name, whatever the host (pods get another one)."""
        name = self.name
        return name is not None and name == other.name

    def has_same_host(self, other: "Identity") -> bool:
        """Whether no source says that the hosts differ."""
        return self.client_host is None or other.client_host is None or self.client_host == other.client_host


def of_evidence(item: Evidence) -> Identity:
    """The member that a piece of evidence names."""
    return Identity(item.member_id, item.instance_id, item.client_id, item.client_host)


def of_member(member: EventMember) -> Identity:
    """A member as an assignment lists it."""
    return Identity(member.member_id, member.instance_id, member.client_id or None, member.client_host or None)


class KnownMembers:
    """What all sources of a group say about each member id, together: a log line that has only the id gets client id and host."""

    def __init__(self) -> None:
        self._known: dict[str, Identity] = {}

    def learn(self, evidence: Iterable[Evidence]) -> None:
        """Remember every member that the evidence names or lists."""
        for item in evidence:
            if item.member_id:
                self._add(of_evidence(item))
            for member in item.members or ():
                if member.member_id and member.member_id not in self._known:
                    self._add(of_member(member))

    def complete(self, identity: Identity) -> Identity:
        """The identity with what other evidence says about its member id."""
        known = self._known.get(identity.member_id or "")
        return identity if known is None else _merged(identity, known)

    def _add(self, identity: Identity) -> None:
        assert identity.member_id is not None
        known = self._known.get(identity.member_id)
        self._known[identity.member_id] = identity if known is None else _merged(known, identity)


def _merged(first: Identity, second: Identity) -> Identity:
    return Identity(*(mine if mine is not None else theirs for mine, theirs in zip(first, second, strict=True)))
