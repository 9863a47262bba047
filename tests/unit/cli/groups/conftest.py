"""A broker of ours with groups whose members are bare requests: they join at once, and stay without a word for five minutes."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.client.admin.client import AdminClient
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription

STAY_MS = 300_000
FIRST_MS = 1_600_000_000_000


class Ran(NamedTuple):
    """What a run of the command printed; `rows` are the lines of its table as words, without the title."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines() if line and not line.startswith(("GROUP ", "TOPIC ", "Error", "Warn"))]

    @property
    def titles(self) -> list[str]:
        return next(line.split() for line in self.out.splitlines() if line.startswith(("GROUP ", "TOPIC ")))

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Member(NamedTuple):
    """What a member says and gets: its client id, its instance id, its topics and what the leader gives it."""

    client_id: str
    assigned: Mapping[str, Sequence[int]] = {}
    instance_id: str | None = None
    topics: Sequence[str] = ()


class Groups:
    """Makes topics and groups on one broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.servers = bootstrap_servers
        self.admin = AdminClient(bootstrap_servers)
        self._raw = RawClient(bootstrap_servers)
        self._clients: list[RawClient] = []

    def run(self, *arguments: str) -> Ran:
        """Runs `ottla groups` on this broker."""
        result = CliRunner().invoke(main, ["groups", "--bootstrap-server", self.servers, *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def topic(self, name: str, partitions: int = 1, records: int = 0, start: int = 0) -> str:
        """A topic with `records` in each partition, a second apart from FIRST_MS on; the first `start` of them are deleted."""
        create_topic(self._raw, name, partitions, retention_ms="-1")
        for number in range(partitions if records else 0):
            batch = encode_batch([Record(at, FIRST_MS + at * 1000, None, b"v", ()) for at in range(records)], base_offset=0)
            data = [{"name": name, "partition_data": [{"index": number, "records": bytes(batch)}]}]
            answer = self._raw.call(ApiKey.PRODUCE, 9, acks=-1, timeout=5000, topic_data=data)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer
        if start:
            asked = [{"name": name, "partitions": [{"partition_index": number, "offset": start} for number in range(partitions)]}]
            self._raw.call(ApiKey.DELETE_RECORDS, 2, timeout=5000, topics=asked)
        return name

    def delete_topic(self, name: str) -> None:
        self._raw.call(ApiKey.DELETE_TOPICS, 5, timeout=5000, topic_names=[name])

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> str:
        """Commits as a consumer without a group would."""
        results = self.admin.commit(group, {TopicPartition(topic, number): offset for number, offset in offsets.items()})
        assert isinstance(results, Mapping), results
        assert not any(results.values()), results
        return group

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        found = self.admin.committed([group])[group]
        assert isinstance(found, Mapping), found
        return {tuple(partition): item.offset for partition, item in found.items()}

    def members(self, group: str, *members: Member, protocol: str = "range", protocol_type: str = "consumer") -> list[str]:
        """A stable group of these members; their member ids in the same order. The first one leads."""
        clients = [self._client(member) for member in members]
        first = self._joined(clients[0], group, members[0], "", protocol, protocol_type)
        for client, member in zip(clients[1:], members[1:]):
            self._join(client, group, member, "", protocol, protocol_type)
        if len(members) > 1:
            self._join(clients[0], group, members[0], first.member_id, protocol, protocol_type)
            answers = [self._receive(client) for client in clients]
        else:
            answers = [first]
        ids = [answer.member_id for answer in answers]
        plan = [{"member_id": each, "assignment": encode_assignment(member.assigned)} for each, member in zip(ids, members)]
        for at, client in enumerate(clients):
            asked = {"group_id": group, "generation_id": answers[at].generation_id, "member_id": ids[at]}
            instance = {"group_instance_id": members[at].instance_id}
            answer = client.call(ApiKey.SYNC_GROUP, 3, **asked, **instance, assignments=plan if at == 0 else [])
            assert answer.error_code == ErrorCode.NONE, answer
        return ids

    def rebalancing(self, group: str) -> None:
        """Another member wants to join a group whose members do not know yet."""
        member = Member("late")
        client = self._client(member)
        self._join(client, group, member, "", "range", "consumer")
        while True:
            (described,) = self.admin.describe_groups([group]).values()
            if getattr(described, "state", "") == "PreparingRebalance":
                return

    def close(self) -> None:
        self.admin.close()
        for client in (self._raw, *self._clients):
            client.close()

    def _client(self, member: Member) -> RawClient:
        self._clients.append(RawClient(self.servers, client_id=member.client_id))
        return self._clients[-1]

    def _join(self, client: RawClient, group: str, member: Member, member_id: str, protocol: str, protocol_type: str) -> None:
        from ottla.testing.raw_client import build_request

        topics = member.topics or list(member.assigned)
        version = 5 if member.instance_id else 3
        values = {
            "group_id": group,
            "session_timeout": STAY_MS,
            "rebalance_timeout": STAY_MS,
            "member_id": member_id,
            "group_instance_id": member.instance_id,
            "protocol_type": protocol_type,
            "protocols": [{"name": protocol, "metadata": encode_subscription(topics)}],
        }
        client.join = build_request(ApiKey.JOIN_GROUP, version, values)  # type: ignore[attr-defined]
        client.send(client.join)  # type: ignore[attr-defined]

    def _receive(self, client: RawClient) -> Any:
        answer = client.receive(client.join)  # type: ignore[attr-defined]
        assert answer.error_code == ErrorCode.NONE, answer
        return answer

    def _joined(self, client: RawClient, *arguments: Any) -> Any:
        self._join(client, *arguments)
        return self._receive(client)


@pytest.fixture(scope="session")
def groups_broker() -> Iterator[Broker]:
    """The broker of these tests; it is shared, so names have to be unique."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def groups(groups_broker: Broker) -> Iterator[Groups]:
    """Makes groups on the shared broker."""
    made = Groups(groups_broker.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def new_groups() -> Iterator[Groups]:
    """Makes groups on a broker that has no others."""
    with Broker() as broker:
        made = Groups(broker.bootstrap_servers)
        yield made
        made.close()


@pytest.fixture
def member() -> type[Member]:
    """`member(client_id, {topic: partitions}, instance_id)` for `groups.members`."""
    return Member


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    """Numbers that no other test has."""
    return itertools.count()


@pytest.fixture
def name(numbers: Iterator[int]) -> Callable[[str], str]:
    """A short name that no other test has."""
    return lambda what: f"{what}-{next(numbers)}"
