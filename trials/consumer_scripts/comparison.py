"""The same seeded scripts of consumer groups on Apache Kafka and on Ottla: every answer, the described group after each step, all records.

Ids of topics are replaced by names before anything is compared; the hash of the topics, which depends on their ids, times, and the version
of the metadata in which a pattern was resolved are compared as present or not. The order of members, topics and of target records is a hash
map's in Kafka, and is sorted. Sentences beside error codes are compared.
"""

import argparse
import dataclasses
import struct
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from ottla.cli.processes import OttlaProcess
from ottla.groups.log.records import decode
from ottla.protocol.records.batch import decode_batch, split_batches
from ottla.testing.raw_client import RawClient
from trials.consumer_scripts.script import HEARTBEAT, VERSIONS, Script, Step
from trials.group_scripts.comparison import _fetch, differences, make_topics
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import make_broker

NAME = "consumer-scripts"
CREATE_PARTITIONS, DELETE_TOPICS, ALTER_CONFIGS, DESCRIBE_CONFIGS, DESCRIBE_CONSUMER = 37, 20, 44, 32, 69
GROUP = 32
OF_GROUP = 8
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignors": "range",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "10",
}
KAFKA_CONFIG = CONFIG | {"group.coordinator.append.linger.ms": "0", "auto.create.topics.enable": "false"}
PLAYERS = 6
SETTLE_S = 0.15
"""A coordinator of Apache Kafka gets new topics, and resolves patterns, a little after the request is answered."""
WAIT_S_MAX = 10.0
PRESENT = frozenset({"metadata_hash", "assignment_timestamp_ms", "version", "timestamp_ms", "commit_timestamp_ms", "expire_timestamp_ms"})
STALE_TYPE = (
    "Kafka computes a target that is due with the subscription type of before the request, if the request itself increases no epoch: "
    "it gives partitions to members that do not subscribe to their topics, or none to those that do"
)
"""Ends a script: a member came without topics, or changed its pattern, while a target was due. Ottla looks at the members as they are."""
LEFT_OUT = frozenset({"throttle_time", "authorized_operations"})
SORTED = frozenset({"members", "topic_partitions", "topics", "groups", "results"})


class Player:
    """One broker's side of a script."""

    def __init__(self, servers: str, group: str, topics: Mapping[str, int]) -> None:
        self.servers = servers
        self.group = group
        self.names: dict[bytes, str] = {}
        self.ids: dict[str, uuid.UUID] = {}
        self.client = RawClient(servers, client_id="script")
        self.add_topics(topics)

    def add_topics(self, topics: Mapping[str, int]) -> None:
        for name, topic_id in make_topics(self.servers, topics).items():
            self.ids[name], self.names[topic_id.bytes] = topic_id, name

    def ask(self, step: Step) -> Any:
        """Send a request; the answer in comparable form."""
        assert step.api is not None
        values = dict(step.values)
        if step.api == HEARTBEAT:
            values["topic_partitions"] = None
            if step.owned is not None:
                values["topic_partitions"] = [{"topic_id": self.ids[name], "partitions": numbers} for name, numbers in step.owned.items()]
        answer = self.plain(self.client.call(step.api, VERSIONS[step.api], **values))
        if step.api == HEARTBEAT and answer["assignment"] is not None:
            parts = answer["assignment"]["topic_partitions"]
            answer["assignment"] = {part["topic_id"]: sorted(part["partitions"]) for part in parts}
        return answer

    def described(self) -> Any:
        answer = self.plain(self.client.call(DESCRIBE_CONSUMER, 1, group_ids=[self.group], include_authorized_operations=False))
        for member in answer["groups"][0]["members"]:
            member["subscribed_topic_names"].sort()
        return answer

    def plain(self, value: Any, name: str = "") -> Any:
        if name in PRESENT and isinstance(value, int):
            return value > 0 if name != "metadata_hash" else value != 0
        if getattr(value, "assignment_epochs", None):
            pairs = sorted(zip(value.partitions, value.assignment_epochs, strict=True))
            return {"topic_id": self.plain(value.topic_id), "partitions": [[int(number), int(epoch)] for number, epoch in pairs]}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                each.name: self.plain(getattr(value, each.name), each.name)
                for each in dataclasses.fields(value)
                if each.name not in LEFT_OUT
            }
        if hasattr(value, "_asdict"):
            return {each: self.plain(item, each) for each, item in value._asdict().items()}
        if isinstance(value, tuple | list):
            items = [self.plain(each, name) for each in value]
            return sorted(items, key=repr) if name in SORTED or name.endswith("partitions") or "pending" in name else items
        if isinstance(value, uuid.UUID):
            return self.names.get(value.bytes, "?")
        if isinstance(value, bytes) and len(value) == 16:
            return self.names.get(value, "?")
        return int(value) if isinstance(value, int) else value

    def configure(self, name: str, value: str | None) -> None:
        configs = [{"name": name, "config_operation": int(value is None), "value": value}]
        asked = [{"resource_type": GROUP, "resource_name": self.group, "configs": configs}]
        (result,) = self.client.call(ALTER_CONFIGS, 1, resources=asked, validate_only=False).responses
        assert result.error_code == 0, result
        asked = [{"resource_type": GROUP, "resource_name": self.group, "configuration_keys": [name]}]
        deadline = time.monotonic() + WAIT_S_MAX
        while True:
            (described,) = self.client.call(
                DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=False, include_documentation=False
            ).results
            if (described.configs[0].config_source == OF_GROUP) == (value is not None):
                return
            assert time.monotonic() < deadline, f"{name} has not changed"
            time.sleep(0.02)


@dataclass(slots=True)
class ScriptOutcome:
    """What came of a script."""

    seed: int
    group: str
    steps: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    errors: Counter[int] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    ended: str = ""
    """The known difference that ended it, if one did."""

    @property
    def detail(self) -> str:
        return f"{len(self.steps)} steps" + (", ended by a known difference" if self.ended else "")


class ConsumerComparison:
    """Scripts on two brokers, the first of which is the reference."""

    def __init__(self, reference: str, ours: str, prefix: str = "cs") -> None:
        self.brokers = reference, ours
        self.prefix = prefix
        self.outcomes: list[ScriptOutcome] = []
        self._players: dict[str, tuple[Player, Player]] = {}

    def play(self, seeds: Iterable[int]) -> None:
        """Run the scripts, some at a time."""
        with ThreadPoolExecutor(PLAYERS) as pool:
            self.outcomes += pool.map(self._play, seeds)

    def _play(self, seed: int) -> ScriptOutcome:
        group = f"{self.prefix}-{seed}"
        script, outcome = Script(seed, group), ScriptOutcome(seed, group)
        first, second = (Player(servers, group, script.topics) for servers in self.brokers)
        self._players[group] = first, second
        described = first.described()
        while not (outcome.differences or outcome.ended) and (step := script.next()) is not None:
            number = len(outcome.steps) + 1
            outcome.steps.append(f"{number}. {step}")
            outcome.kinds[step.kind] += 1
            if step.api is None:
                self._act(script, step, (first, second))
            else:
                theirs, ours = first.ask(step), second.ask(step)
                outcome.differences += differences(ours, theirs, f"answer to step {number} ({step.kind})")
                outcome.errors[theirs.get("error_code", 0)] += 1
                script.learn(step, theirs)
            if step.has_new_regex:
                time.sleep(SETTLE_S)
            self._await_the_same(first, second)
            before, described = described, first.described()
            found = [*differences(second.described(), described, f"the group after step {number} ({step.kind})")]
            if found and step.api == HEARTBEAT and _has_stale_type(before["groups"][0], described["groups"][0]):
                outcome.ended, outcome.differences = STALE_TYPE, []
            else:
                outcome.differences += found
        for player in (first, second):
            player.client.close()
        return outcome

    @staticmethod
    def _await_the_same(first: Player, second: Player) -> None:
        """Wait a moment for the reference's coordinator, which learns of topics and resolves patterns a little later."""
        deadline = time.monotonic() + WAIT_S_MAX / 3
        while first.described() != second.described() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _act(self, script: Script, step: Step, players: Sequence[Player]) -> None:
        """Do what is no request of the group: change topics, or let a session end."""
        for player in players:
            if step.kind == "new-topic":
                player.add_topics({step.values["topic"]: step.values["count"]})
            elif step.kind == "more-partitions":
                asked = [{"name": step.values["topic"], "count": step.values["count"], "assignments": None}]
                (result,) = player.client.call(CREATE_PARTITIONS, 3, topics=asked, timeout=10_000, validate_only=False).results
                assert result.error_code == 0, result
            elif step.kind == "delete-topic":
                (deleted,) = player.client.call(DELETE_TOPICS, 5, topic_names=[step.values["topic"]], timeout=10_000).responses
                assert deleted.error_code == 0, deleted
            else:
                self._expire(step, player)
        if step.kind == "expire":
            assert step.member is not None
            script.forget(step.member)
        else:
            time.sleep(2 * SETTLE_S)

    def _expire(self, step: Step, player: Player) -> None:
        player.configure("consumer.session.timeout.ms", "300")
        values = {"group_id": player.group, "member_id": step.member, "member_epoch": step.values["epoch"], "rebalance_timeout": -1}
        answer = player.client.call(HEARTBEAT, 1, **values, subscribed_topic_names=None, topic_partitions=None)
        assert answer.error_code == 0, answer
        deadline = time.monotonic() + WAIT_S_MAX
        while any(member["member_id"] == step.member for member in player.described()["groups"][0]["members"]):
            assert time.monotonic() < deadline, f"{step.member} is still a member"
            time.sleep(0.02)
        player.configure("consumer.session.timeout.ms", None)

    def compare_records(self) -> None:
        """Compare what the scripts without a difference have written."""
        written = [self._read(servers, at) for at, servers in enumerate(self.brokers)]
        for outcome in self.outcomes:
            if not outcome.differences and not outcome.ended:
                theirs, ours = (records.get(outcome.group, []) for records in written)
                for number, (one, other) in enumerate(zip_longest(ours, theirs)):
                    outcome.differences += differences(one, other, f"record {number}")

    def _read(self, servers: str, at: int) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        with RawClient(servers) as client:
            offset, end = 0, 1
            while offset < end:
                part = _fetch(client, offset)
                end, data = int(part.high_watermark), bytes(part.records or b"")
                for start, header in split_batches(data):
                    for each in decode_batch(data, start):
                        record = decode(each.key, each.value)
                        if record is not None and each.offset >= offset and record.group_id in self._players:
                            player = self._players[record.group_id][at]
                            version = None if each.value is None else struct.unpack_from(">h", each.value)[0]
                            kind = getattr(record, "record_type", 1)
                            found.setdefault(record.group_id, []).append({"type": kind, "version": version, **player.plain(record)})
                    offset = header.next_offset
        return {group: _in_order(records) for group, records in found.items()}


def _has_stale_type(before: Any, after: Any) -> bool:
    """Whether a request computed a target that was due before, without a new epoch, for members with different subscriptions."""
    subscriptions = {(tuple(member["subscribed_topic_names"]), member["subscribed_topic_regex"]) for member in after["members"]}
    was_due = before["assignment_epoch"] < before["group_epoch"]
    return was_due and after["group_epoch"] == before["group_epoch"] == after["assignment_epoch"] and len(subscriptions) > 1


def _in_order(records: list[Any]) -> list[Any]:
    """Records of one type in a row, sorted: their order is a hash map's."""
    return [record for _, run in groupby(records, lambda each: (each["type"], each["version"])) for record in sorted(run, key=repr)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which scripts."""
    add_seed_option(parser, "0-99", "a script each")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run the scripts on Apache Kafka and Ottla."""
    with tempfile.TemporaryDirectory(prefix="ottla-consumer-scripts-") as name:
        ottla = OttlaProcess(Path(name) / "data", config=CONFIG)
        with make_broker("apache-kafka", Path(name), KAFKA_CONFIG) as kafka, ottla:
            comparison = ConsumerComparison(kafka.bootstrap_servers, ottla.bootstrap_servers)
            comparison.play(options.seed)
            comparison.compare_records()
    for outcome in comparison.outcomes:
        if outcome.differences:
            results.say("\n".join(outcome.steps))
        results.verdict(f"seed {outcome.seed}", Outcome(outcome.differences, outcome.detail), seed=outcome.seed)
    kinds: Counter[str] = sum((outcome.kinds for outcome in comparison.outcomes), Counter())
    errors: Counter[int] = sum((outcome.errors for outcome in comparison.outcomes), Counter())
    results.say(f"steps: {dict(kinds)}; errors: {dict(errors)}")
    if ended := sum(bool(outcome.ended) for outcome in comparison.outcomes):
        results.say(f"{ended} ended by a known difference: {STALE_TYPE}")
