"""Runs a script on one broker: sends its steps, collects the responses, and describes the group.

After every step it deletes an unknown group, a request that the coordinator handles after everything sent before; once it is answered,
every request without a response is parked. (Apache Kafka answers it when all earlier writes are stored, except for requests that fail as
a whole.) On Apache Kafka this needs one thread of each kind and one offsets partition.
"""

import dataclasses
import datetime
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from ottla.testing.raw_client import RawClient, build_request
from trials.group_scripts.script_state import OFFSET_COMMIT, GroupDescription, Step

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


CONFIG = {
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "100",
}
"""Settings of both brokers: one queue for all groups, and short sessions."""
RUN_IN_ORDER_COMMAND = (sys.executable, "-c", "import sys; sys.modules['uvloop'] = None; from ottla.cli.main import main; main()")
"""On asyncio's own loop, which writes a response to its socket at once; uvloop does at the end of an iteration, sockets in any order."""
KAFKA_CONFIG = CONFIG | {
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.threads": "1",
    "group.coordinator.append.linger.ms": "0",
    "auto.create.topics.enable": "false",
}
METADATA, OFFSET_FETCH, DESCRIBE_GROUPS, LIST_GROUPS, API_VERSIONS, DELETE_GROUPS = 3, 9, 15, 16, 18, 42
UNKNOWN_TOPIC_OR_PARTITION = 3
POLL_SECONDS = 0.015
FLUSH = "-flush"
SCRIPT_ENDS_AT = 999
"""The offset that the group of flushes commits when a script is over."""
GONE_SECONDS_MAX = 15


class Player:
    """The connections of one script to one broker, and its responses."""

    def __init__(self, bootstrap_servers: str, group: str, masks: Masks) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.masks = masks
        self.description: Any = None
        """The group as DescribeGroups shows it, masked."""
        self._group = group
        self._free: list[RawClient] = []
        self._waiting: dict[int, tuple[RawClient, Any]] = {}
        # It reports what has become readable in the order in which it did (epoll, kqueue).
        self._readiness = DefaultSelector()
        self._probe = RawClient(bootstrap_servers, client_id="probe")
        # These are sent after every step, so they are encoded once, and an unchanged response is not decoded again.
        self._barrier = self._probe.encode(build_request(DELETE_GROUPS, 0, {"groups_names": [f"{group}-not-there"]}))
        part = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
        topics = [{"name": "flights", "partitions": [part]}]
        self._commit = build_request(OFFSET_COMMIT, 2, {"group_id": group + FLUSH, "generation_id_or_member_epoch": -1, "topics": topics})
        part["committed_offset"] = SCRIPT_ENDS_AT
        self._end = build_request(OFFSET_COMMIT, 2, {"group_id": group + FLUSH, "generation_id_or_member_epoch": -1, "topics": topics})
        self._describe_request = build_request(DESCRIBE_GROUPS, 4, {"groups": [group]})
        self._describe = self._probe.encode(self._describe_request)
        self._described = b""

    def send(self, steps: Mapping[int, Step]) -> None:
        """Send steps one right after the other; each keeps its connection until it is answered."""
        frames: list[tuple[RawClient, bytes]] = []
        for number, step in steps.items():
            assert step.api is not None, f"{step} is not a request"
            client = self._free.pop() if self._free else self._connect()
            client.client_id = step.client_id
            request = build_request(step.api, step.version, self.masks.real(step.values))
            frames.append((client, client.encode(request)))
            self._waiting[number] = (client, request)
        if len(frames) > 1:
            # A connection on which the broker's last event was would come before the others: epoll has not forgotten it yet.
            self._probe.call(API_VERSIONS, 0)
        for client, frame in frames:
            client.send_frame(frame)

    def _connect(self) -> RawClient:
        # Until a broker has accepted the connection, requests on other connections overtake it.
        client = RawClient(self.bootstrap_servers)
        client.call(API_VERSIONS, 0)
        self._readiness.register(client, EVENT_READ)
        return client

    def touch(self) -> dict[int, Any]:
        """Wait until the broker has read every request sent so far, handled or not; returns the masked responses that arrived."""
        self._probe.call(API_VERSIONS, 0)
        return self._arrived()

    def flush(self) -> None:
        """Let the coordinator write something: what a request changed without a record is fields by Apache Kafka from then on."""
        self._probe.ask(self._commit)

    def end(self) -> None:
        """Write a record that marks the end of the script; later records are those of timers."""
        self._probe.ask(self._end)

    def settle(self) -> dict[int, Any]:
        """Wait until every request sent so far is handled; returns the masked responses that arrived, by step, in their order."""
        self._probe.send_frame(self._barrier)
        self._probe.receive_frame()
        self._probe.send_frame(self._describe)
        described = self._probe.receive_frame()
        answers = self._arrived()
        if described != self._described:
            (group,) = self._probe.decode(self._describe_request, described).groups
            self._described, self.description = described, self.masks.masked(group)
        return answers

    def settle_until(self, condition: Callable[[dict[int, Any]], bool], seconds_max: float) -> dict[int, Any]:
        """Settle repeatedly until the condition holds for the responses so far, or time is up."""
        deadline = time.monotonic() + seconds_max
        answers = self.settle()
        while not condition(answers) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            answers |= self.settle()
        return answers

    def wait_for_topics_gone(self, topics: list[str]) -> None:
        """Wait until the broker has deleted the topics and their offsets."""
        asked = [{"name": topic, "partition_indexes": list(range(2))} for topic in topics]
        request = build_request(OFFSET_FETCH, 5, {"group_id": self._group, "topics": asked})
        metadata = build_request(METADATA, 12, {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False})
        deadline = time.monotonic() + GONE_SECONDS_MAX
        while time.monotonic() < deadline:
            known = any(topic.error_code != UNKNOWN_TOPIC_OR_PARTITION for topic in self._probe.ask(metadata).topics)
            kept = any(part.committed_offset >= 0 for topic in self._probe.ask(request).topics for part in topic.partitions)
            if not known and not kept:
                return
            time.sleep(POLL_SECONDS)
        raise TimeoutError(f"{topics} still exist")

    def close(self) -> None:
        """Close every connection, which does not affect groups."""
        for client in [self._probe, *self._free, *(client for client, _ in self._waiting.values())]:
            client.close()
        self._readiness.close()

    def _arrived(self) -> dict[int, Any]:
        if not self._waiting:
            return {}
        in_order: dict[int, Any] = {}
        by_client = {client: number for number, (client, _) in self._waiting.items()}
        # Until nothing is readable: only then does epoll forget a place in its order.
        while readable := self._readiness.select(0):
            for key, _ in readable:
                number = by_client[key.fileobj]  # type: ignore[index]
                client, request = self._waiting.pop(number)
                in_order[number] = client.receive(request)
                self._free.append(client)
        # A response with the member's own id names it first, since lists of members have no order.
        by_step = sorted(in_order)
        for number in by_step:
            if isinstance(getattr(in_order[number], "member_id", None), str):
                self.masks.name_member(in_order[number].member_id)
        masked = {number: self._comparable(in_order[number]) for number in by_step}
        return {number: masked[number] for number in in_order}

    def _comparable(self, answer: Any) -> Any:
        masked = self.masks.masked(answer)
        api = int(answer.__api_key__)
        if api == LIST_GROUPS:
            own = [group for group in masked["groups"] if group["group_id"].startswith(self._group)]
            masked["groups"] = sorted(own, key=lambda group: str(group["group_id"]))
        return masked


def group_description(described: Mapping[str, Any]) -> GroupDescription:
    """The fields of a described group that a script needs."""
    members = {each["member_id"]: each["group_instance_id"] for each in described["members"]}
    return GroupDescription(state=described["group_state"], protocol=described["protocol_data"], members=members)
