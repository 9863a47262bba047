"""Replaces the names of groups, members, hosts, topics and logs, so that a report can be given away. What happened and when stays."""

from dataclasses import replace
from typing import TypeVar

from ottla.groups.events import EventMember
from ottla.history.rounds.identity import Identity
from ottla.history.sources.model import Evidence
from ottla.history.story.lag import LagHistory
from ottla.history.verdicts.verdict import Verdict
from ottla.protocol.model import TopicPartition

Name = TypeVar("Name", str, str | None)


class Anonymiser:
    """Gives each name another, the same one each time: `group-1`, `client-2`, `host-1`. Texts as logged are left out."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, str]] = {}

    def name(self, kind: str, name: Name) -> Name:
        """The other name of a `kind`; None and "" stay."""
        if not name:
            return name
        known = self._names.setdefault(kind, {})
        return known.setdefault(name, f"{kind}-{len(known) + 1}")

    def evidence(self, evidence: Evidence) -> Evidence:
        """The same without names."""
        return replace(
            evidence,
            clock=self.name("clock", evidence.clock),
            group=self.name("group", evidence.group),
            reason=None,
            client_reason=None,
            member_id=self.name("member", evidence.member_id),
            instance_id=self.name("instance", evidence.instance_id),
            client_id=self.name("client", evidence.client_id),
            client_host=self.name("host", evidence.client_host),
            leader=self.name("member", evidence.leader),
            members=None if evidence.members is None else tuple(map(self._member, evidence.members)),
            topics=None if evidence.topics is None else frozenset(self.name("topic", topic) for topic in evidence.topics),
            commits={self._partition(partition): span for partition, span in evidence.commits.items()},
        )

    def verdict(self, verdict: Verdict) -> Verdict:
        """The same without names."""
        who = verdict.who
        if who is not None:
            who = Identity(
                self.name("member", who.member_id),
                self.name("instance", who.instance_id),
                self.name("client", who.client_id),
                self.name("host", who.client_host),
            )
        return replace(verdict, group=self.name("group", verdict.group), who=who, clock=self.name("clock", verdict.clock))

    def lag(self, lag: LagHistory) -> LagHistory:
        """The same without names."""
        return replace(lag, rows={self._partition(partition): row for partition, row in lag.rows.items()})

    def _member(self, member: EventMember) -> EventMember:
        return replace(
            member,
            member_id=self.name("member", member.member_id),
            instance_id=self.name("instance", member.instance_id),
            client_id=self.name("client", member.client_id),
            client_host=self.name("host", member.client_host),
            assignment={self.name("topic", topic): partitions for topic, partitions in member.assignment.items()},
        )

    def _partition(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.name("topic", partition.topic), partition.partition)
