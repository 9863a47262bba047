"""A look at groups by the admin API: their state, members and assignments, what they have committed, and where the logs end.

A group that may not be described is left out, and named once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from ottla.cli.groups.offset_rows import assigned_partitions, wanted_partitions
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import LATEST, CommittedOffset, DescribedGroup, DescribedTopic, Failure
from ottla.client.errors import RequestFailedError, UnknownTopicError
from ottla.core.diagnosis.evidence.admin_snapshots import DEAD, GroupSnapshot
from ottla.core.errors import ErrorCode
from ottla.core.model import EventMember, TopicPartition
from ottla.core.text import printable

NOT_KNOWN_MS: Final = -1
"""The admin API does not have the timeouts of members."""
_GONE: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE})
Committed = Mapping[TopicPartition, CommittedOffset]
Answer = TypeVar("Answer")


class Poller:
    """Looks at `groups` (None: at all). `note` is called with a sentence about what may not be read.

    `topic_names`: ids to names of topics, as of the last look.
    """

    def __init__(self, admin: AdminClient, *, groups: Sequence[str] | None, now_ms: Callable[[], int], note: Callable[[str], None]) -> None:
        self._admin = admin
        self._groups = groups
        self._now_ms = now_ms
        self._note = note
        self._refused: set[str] = set()
        self.topic_names: dict[str, str] = {}

    def look(self, *, with_offsets: bool = True) -> list[GroupSnapshot]:
        """Every group as it is now, with its offsets and the ends of logs if wanted. Raises ClientError or PeerError."""
        names = list(self._groups) if self._groups is not None else [group.group_id for group in self._admin.list_groups()]
        at_ms = self._now_ms()
        described = self._known(self._admin.describe_groups(names))
        if not with_offsets:
            return _snapshots(described, {}, {}, at_ms=at_ms)
        committed = self._known(self._admin.committed(described))
        topics = self._admin.list_topics()
        self.topic_names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id}
        wanted = {each for name, group in described.items() for each in wanted_partitions(group, committed.get(name, {}))}
        ends = self._ends(wanted, topics)
        return [
            snapshot_of(group, committed.get(name, {}), ends, at_ms=at_ms)
            for name, group in sorted(described.items())
            if group.state != DEAD
        ]

    def _known(self, answers: Mapping[str, Answer | Failure]) -> dict[str, Answer]:
        known: dict[str, Answer] = {}
        for name, answer in answers.items():
            if not isinstance(answer, Failure):
                known[name] = answer
            elif answer.code not in _GONE and name not in self._refused:
                self._refused.add(name)
                self._note(f"group {printable(name)} may not be described: {answer.code.name}")
        return known

    def _ends(self, wanted: set[TopicPartition], topics: Mapping[str, DescribedTopic]) -> dict[TopicPartition, int]:
        led = [each for each in sorted(wanted) if each.topic in topics and topics[each.topic].leaders.get(each.partition) is not None]
        try:
            return self._admin.list_offsets(led, LATEST)
        except (UnknownTopicError, RequestFailedError) as error:
            # A topic was deleted meanwhile, or may not be read: the groups are worth storing without.
            if str(error) not in self._refused:
                self._refused.add(str(error))
                self._note(f"the ends of logs are not known: {error}")
            return {}


def _snapshots(
    groups: Mapping[str, DescribedGroup], committed: Mapping[str, Committed], ends: Mapping[TopicPartition, int], *, at_ms: int
) -> list[GroupSnapshot]:
    return [snapshot_of(group, committed.get(name, {}), ends, at_ms=at_ms) for name, group in sorted(groups.items()) if group.state != DEAD]


def snapshot_of(group: DescribedGroup, committed: Committed, ends: Mapping[TopicPartition, int], *, at_ms: int) -> GroupSnapshot:
    """A group as it is stored."""
    members = tuple(
        EventMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.host,
            session_timeout_ms=NOT_KNOWN_MS,
            rebalance_timeout_ms=NOT_KNOWN_MS,
            assignment={topic: tuple(numbers) for topic, numbers in sorted(assigned_partitions(member).items())},
        )
        for member in sorted(group.members, key=lambda each: each.member_id)
    )
    wanted = wanted_partitions(group, committed)
    return GroupSnapshot(
        at_ms=at_ms,
        group=group.group_id,
        group_type=group.kind,
        state=group.state,
        protocol=group.assignor,
        epoch=group.group_epoch,
        target_epoch=group.target_epoch,
        members=members,
        committed={each: found.offset for each, found in committed.items() if found.offset >= 0},
        ends={each: ends[each] for each in wanted if each in ends},
    )
