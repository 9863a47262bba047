"""Runs scripts on two brokers at the same time and compares them after every step, and the records that they wrote at the end.

The first broker is the reference. Every response, the set of parked requests, and the described group are compared; a known difference is
counted, any other ends the script.

Of requests that were under way at once, the order of the responses is compared as far as it is a rule of Apache Kafka's: a group's
requests are handled in the order in which they were read, and what one of them answers (itself and those that it settles) comes before
what the next one answers. The responses that one request causes come in any order there: that of a hash map of member ids, and of the
connections that are ready at once.

Of each record in the offsets topic, key, version and every field are compared. Consecutive tombstones are sorted, since those of a deleted
group come from a hash map.
"""

import argparse
import struct
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from threading import Semaphore
from typing import Any

from ottla.cli.processes import OttlaProcess
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, decode
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.coordinator_records import GroupMetadataValue, OffsetValue
from ottla.protocol.records.batch import decode_batch, split_batches
from ottla.testing.raw_client import RawClient
from trials.group_scripts.known_differences import UNREADABLE, LastLeader, reason_for_missing, reason_to_end
from trials.group_scripts.player import (
    CONFIG,
    FLUSH,
    KAFKA_CONFIG,
    POLL_SECONDS,
    RUN_IN_ORDER_COMMAND,
    SCRIPT_ENDS_AT,
    Masks,
    Player,
    group_description,
)
from trials.group_scripts.script import TOPICS, Script
from trials.group_scripts.script_state import JOIN_GROUP, OFFSET_COMMIT, Step
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import make_broker

NAME = "group-scripts"
FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, FIND_COORDINATOR, CREATE_TOPICS, DELETE_TOPICS = 1, 2, 3, 9, 10, 19, 20
TOPIC_ALREADY_EXISTS = 36
SUFFIXES = ("-simple", "-none")
"""A script has a group without members and one that is never created, besides the one of its own name."""
PARTITION_BYTES_MAX = 16 * 1024 * 1024
ANSWER_SECONDS_MAX = 10.0
LAG_SECONDS_MAX = 3.0
READY_SECONDS_MAX = 30
ATTEMPTS_MAX = 4


def read_group_records(bootstrap_servers: str) -> dict[str, list[tuple[int | None, Any]]]:
    """The records of every group until its script ended: the version of each value (None: a tombstone) and the record."""
    found: dict[str, list[tuple[int | None, Any]]] = defaultdict(list)
    with RawClient(bootstrap_servers) as client:
        at, end = 0, 1
        while at < end:
            part = _fetch(client, at)
            end = int(part.high_watermark)
            data = bytes(part.records or b"")
            for start, header in split_batches(data):
                for each in decode_batch(data, start):
                    record = decode(each.key, each.value)
                    if record is not None and each.offset >= at and not _is_over(record.group_id, found):
                        version = None if each.value is None else struct.unpack_from(">h", each.value)[0]
                        found[record.group_id].append((version, record))
                at = header.next_offset
    return found


def comparable_records(records: list[tuple[int | None, Any]], masks: Masks) -> list[dict[str, Any]]:
    """One group's records as plain values, equal on two brokers."""
    plain = [_plain(version, record, masks) for version, record in records]
    in_order: list[dict[str, Any]] = []
    for is_tombstone, run in groupby(plain, lambda each: each["version"] is None):
        records_in_a_row = list(run)
        in_order.extend(sorted(records_in_a_row, key=repr) if is_tombstone else records_in_a_row)
    return in_order


def _is_over(group_id: str, found: Mapping[str, list[tuple[int | None, Any]]]) -> bool:
    for suffix in ("", *SUFFIXES):
        flushes = found.get(group_id.removesuffix(suffix) + FLUSH)
        if flushes and flushes[-1][1].value.offset == SCRIPT_ENDS_AT:
            return True
    return False


def _fetch(client: RawClient, at: int) -> Any:
    wanted = [{"partition": 0, "current_leader_epoch": -1, "fetch_offset": at, "partition_max_bytes": PARTITION_BYTES_MAX}]
    values = {"replica_id": -1, "max_wait": 100, "max_bytes": PARTITION_BYTES_MAX, "session_epoch": -1}
    answer = client.call(FETCH, 11, topics=[{"topic": CONSUMER_OFFSETS, "partitions": wanted}], **values)
    (part,) = answer.responses[0].partitions
    assert part.error_code == 0, part
    return part


def _plain(version: int | None, record: GroupMetadataRecord | OffsetRecord, masks: Masks) -> dict[str, Any]:
    value = record.value
    if isinstance(record, OffsetRecord):
        fields = None if value is None else _offset(value, masks)
        return {"version": version, "topic": record.topic, "partition": record.partition, "value": fields}
    assert value is None or isinstance(value, GroupMetadataValue), f"{record.group_id} has {value}"
    return {"version": version, "group": record.group_id, "value": None if value is None else _group(value, masks)}


def _offset(value: Any, masks: Masks) -> dict[str, Any]:
    assert isinstance(value, OffsetValue), f"{value} is no offset"
    expires_after = None if value.expire_timestamp_ms is None else value.expire_timestamp_ms - value.commit_timestamp_ms
    fields = value._asdict() | {"commit_timestamp_ms": value.commit_timestamp_ms > 0, "expire_timestamp_ms": expires_after}
    return fields | {"topic_id": masks.topic_id(uuid.UUID(bytes=value.topic_id))}


def _group(value: GroupMetadataValue, masks: Masks) -> dict[str, Any]:
    members = [
        {name: getattr(member, name) for name in member.__dataclass_fields__} | {"member_id": masks.name_member(member.member_id)}
        for member in value.members
    ]
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return fields | {
        "leader": None if value.leader is None else masks.name_member(value.leader),
        "current_state_timestamp_ms": value.current_state_timestamp_ms > 0,
        "members": sorted(members, key=lambda member: str(member["member_id"])),
    }


class TooSlow(Exception):
    """The machine was too busy: a short timer may have fired before its step, so the script has no result."""


@dataclass(slots=True)
class ScriptOutcome:
    """The outcome of a script: its steps, known differences (counted), and unexplained ones, as text."""

    seed: int
    group: str
    steps: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    errors: Counter[int] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    pairs: int = 0
    """Pairs of answers whose order was compared."""
    differences: list[str] = field(default_factory=list)
    too_slow: str = ""


class ScriptComparison:
    """One script on two brokers."""

    def __init__(self, script: Script, players: tuple[Player, Player], slots: AbstractContextManager[Any]) -> None:
        self.script = script
        self.players = players
        self._slots = slots
        self.outcome = ScriptOutcome(script.seed, script.state.group)
        self._number = 0
        self._deadline: float | None = None
        self._stable_at = time.monotonic()
        self._last_leader = LastLeader()
        self._sent: dict[int, Step] = {}

    def play(self) -> ScriptOutcome:
        """Run until the script ends or the brokers differ. Raises TooSlow."""
        self._compare([player.settle() for player in self.players])
        while not self.outcome.differences and (step := self.script.next()) is not None:
            if step.api is None:
                self._note(self._number + 1, step)
                self._wait(step)
            elif self.script.style.hurried or self._deadline is not None or step.arms_ms is not None:
                self._take([step])
            else:
                with self._slots:
                    self._take([step, *self.script.sent_with(step)])
        for player in self.players:
            player.end()
        return self.outcome

    def _note(self, number: int, step: Step) -> None:
        self.outcome.steps.append(f"{number}. {step}")
        self.outcome.kinds[step.kind] += 1

    def _take(self, steps: Sequence[Step]) -> None:
        """Take one step, or several without waiting for responses in between."""
        asked = dict(enumerate(steps, self._number + 1))
        self._number += len(steps)
        if not self.script.is_hurried_now:
            self._stable_at = time.monotonic()
        starts_first_rebalance = steps[0].api == JOIN_GROUP and not self.script.state.description.members
        for number, step in asked.items():
            self._note(number, step)
            if step.arms_ms is not None:
                self._deadline = time.monotonic() + step.arms_ms / 2000
            self._sent[number] = self.script.state.parked[number] = step
        answers, in_order = self._ask_one(asked) if len(asked) == 1 else self._ask_several(asked)
        if starts_first_rebalance:
            # A timer completes the first rebalance of a group, after a delay of 0 ms: a little later than the request that starts it.
            for player, received in zip(self.players, answers):
                if player.description["members"]:
                    self._await_answer(player, received)
                    received |= player.settle()
        if any(step.api == OFFSET_COMMIT for step in steps):
            for player in self.players:
                player.flush()
        if steps[0].api == DELETE_TOPICS:
            self._forget_topics(steps[0], answers)
        self._check_time()
        self._compare(answers, in_order)

    def _ask_one(self, asked: Mapping[int, Step]) -> tuple[list[dict[int, Any]], list[tuple[int, int]]]:
        for player in self.players:
            player.send(asked)
        return [player.settle() for player in self.players], []

    def _ask_several(self, asked: Mapping[int, Step]) -> tuple[list[dict[int, Any]], list[tuple[int, int]]]:
        """Send the steps to our broker at once, and to the reference one after the other; the responses, and which come before which.

        The reference has handled each step before it gets the next one; or it has only read it, and has several under way.
        """
        reference, ours = self.players
        ours.send(asked)
        theirs: dict[int, Any] = {}
        in_order: list[tuple[int, int]] = []
        overlap = self.script.overlaps_on_reference(asked.values())
        for number, step in asked.items():
            reference.send({number: step})
            received = reference.touch() if overlap else reference.settle()
            if step.api == OFFSET_COMMIT:
                reference.flush()
            # What one step has answered comes in any order, and before what the next one answers: itself, and others if it was handled.
            in_order += [(earlier, later) for earlier in theirs for later in ({number} if overlap else received)]
            theirs |= received
        if overlap:
            theirs |= reference.settle()
        return [theirs, ours.settle()], in_order

    def _wait(self, step: Step) -> None:
        if step.pause_ms is not None:
            time.sleep(step.pause_ms / 1000)
            self._compare([player.settle() for player in self.players])
        else:
            before = [player.description for player in self.players]
            answers = [self._until_changed(player, description) for player, description in zip(self.players, before)]
            # One broker's late responses may belong together with earlier ones of the other.
            for player, received in zip(self.players, answers):
                received |= player.settle()
            self._compare(answers)
        self._deadline = None
        self._stable_at = time.monotonic()

    def _await_answer(self, player: Player, received: dict[int, Any]) -> None:
        received |= player.settle_until(lambda so_far: self._number in so_far | received, ANSWER_SECONDS_MAX)

    def _until_changed(self, player: Player, before: Any) -> dict[int, Any]:
        return player.settle_until(lambda received: bool(received) or player.description != before, self.script.wait_seconds_max)

    def _check_time(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            raise TooSlow(f"seed {self.script.seed}, step {self._number}")
        if self.script.style.hurried and now > self._stable_at + self.script.hurry_ms / 2000:
            raise TooSlow(f"seed {self.script.seed}, step {self._number}, in a rebalance")

    def _forget_topics(self, step: Step, answers: list[dict[int, Any]]) -> None:
        """Wait until the offsets of deleted topics are deleted: on Apache Kafka a little after the response."""
        state = self.script.state
        for topic in step.values["topic_names"]:
            state.topics.pop(topic)
            state.gone_topics.add(topic)
        for player, received in zip(self.players, answers):
            self._await_answer(player, received)
            player.wait_for_topics_gone(step.values["topic_names"])

    def _await_lagging(self, answers: list[dict[int, Any]]) -> None:
        """Wait a moment for a broker that seems to lag: requests or responses on two connections may overtake each other."""
        deadline = time.monotonic() + LAG_SECONDS_MAX
        while time.monotonic() < deadline:
            one_sided = [number for number in answers[0].keys() ^ answers[1].keys() if not self._is_explained(number, answers)]
            if not one_sided and self.players[0].description == self.players[1].description:
                return
            time.sleep(POLL_SECONDS)
            for player, received in zip(self.players, answers):
                received |= player.settle()

    def _is_explained(self, number: int, answers: list[dict[int, Any]]) -> bool:
        return reason_for_missing(self._sent, number, answers[1].get(number), answers[0].get(number)) is not None

    def _compare(self, answers: list[dict[int, Any]], in_order: Sequence[tuple[int, int]] = ()) -> None:
        self._await_lagging(answers)
        theirs, ours = answers
        state, outcome = self.script.state, self.outcome
        for number in sorted(theirs.keys() | ours.keys()):
            step = self._sent[number]
            if number in theirs and number in ours:
                found = list(differences(ours[number], theirs[number], f"answer to step {number} ({step.kind})"))
                reason = None
            else:
                found = [self._one_sided(number, theirs, ours)]
                reason = reason_for_missing(self._sent, number, ours.get(number), theirs.get(number))
            if found and reason is None:
                outcome.differences.extend(found)
            elif reason is not None:
                outcome.explained[reason] += 1
        end = reason_to_end(self._sent, theirs, ours, self._last_leader, group_description(self.players[0].description).members)
        self._last_leader.learn(theirs)
        if end is not None:
            outcome.differences.clear()
            outcome.explained[end] += 1
            state.is_over = True
            return
        pairs = [pair for pair in in_order if ours.keys() >= set(pair) and _are_of_one_group(*(self._sent[number] for number in pair))]
        outcome.pairs += len(pairs)
        for first, second in out_of_order(list(ours), pairs):
            earlier, later = (f"step {number} ({self._sent[number].kind})" for number in (first, second))
            outcome.differences.append(f"{earlier} is answered before {later} and should be answered after it")
        described = [player.description for player in self.players]
        if not outcome.differences:
            outcome.differences.extend(differences(described[1], described[0], f"the group after step {self._number}"))
        for number, answer in sorted(theirs.items()):
            state.parked.pop(number, None)
            state.learn(self._sent[number], answer)
            outcome.errors[answer.get("error_code", 0)] += 1
        outcome.answers += len(theirs)
        state.description = group_description(described[0])

    def _one_sided(self, number: int, theirs: Mapping[int, Any], ours: Mapping[int, Any]) -> str:
        step = self._sent[number]
        if number in ours:
            return f"step {number} ({step.kind}) is answered {ours[number]} and should be parked"
        return f"step {number} ({step.kind}) is parked and should be answered {theirs[number]}"


def out_of_order(answered: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those of `pairs`, the earlier step first, that were answered the other way round: what came first, and before what."""
    places = {number: place for place, number in enumerate(answered)}
    return ((later, earlier) for earlier, later in pairs if places[later] < places[earlier])


def _are_of_one_group(one: Step, other: Step) -> bool:
    group_id = one.values.get("group_id")
    return group_id is not None and group_id == other.values.get("group_id")


def differences(ours: Any, theirs: Any, where: str) -> Iterator[str]:
    """Every field in which two masked responses differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for name in ours:
            yield from differences(ours[name], theirs[name], f"{where}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{where}[{number}]")
    elif ours != theirs:
        yield f"{where}: {ours!r} and should be {theirs!r}"


class ComparisonRun:
    """Runs scripts on two brokers; the first one is the reference. `prefix` makes the names of this run unique.

    As many scripts as there are threads are under way, most of them waiting; of those that need not hurry, as many as there are slots
    take a step at any time.
    """

    def __init__(
        self, reference: str, ours: str, prefix: str, *, group_size_max: int | None = None, threads: int = 16, slots: int = 3
    ) -> None:
        self.brokers = (reference, ours)
        self.prefix = prefix
        self.group_size_max = group_size_max
        self.threads = threads
        self.outcomes: list[ScriptOutcome] = []
        self._slots = Semaphore(slots)
        self._masks: dict[str, tuple[Masks, Masks]] = {}
        self._topic_ids = [make_topics(broker, TOPICS) for broker in self.brokers]

    def play(self, seeds: Iterable[int]) -> None:
        """Run a script of each seed, those first that wait most."""
        in_order = sorted(seeds, key=lambda seed: not Script(seed, "").style.hurried)
        with ThreadPoolExecutor(self.threads) as pool:
            self.outcomes.extend(pool.map(self._play_until_quick, in_order))

    def compare_records(self) -> None:
        """Compare the records of every script that ran to its end; differences go to its outcome."""
        theirs, ours = (read_group_records(broker) for broker in self.brokers)
        for outcome in self.outcomes:
            # A rebalance that hangs on one broker continues by its timers on the other.
            if outcome.differences or outcome.too_slow or UNREADABLE in outcome.explained:
                continue
            for suffix in ("", *SUFFIXES):
                group = outcome.group + suffix
                one, other = self._masks[outcome.group]
                found = differences(comparable_records(ours[group], other), comparable_records(theirs[group], one), f"records of {group}")
                outcome.differences.extend(found)

    @property
    def explained(self) -> Counter[str]:
        """How often each reason explained a difference."""
        return sum((outcome.explained for outcome in self.outcomes), Counter())

    @property
    def kinds(self) -> Counter[str]:
        """How often each kind of step was taken."""
        return sum((outcome.kinds for outcome in self.outcomes), Counter())

    @property
    def pairs(self) -> int:
        """Of how many pairs of answers the order was compared."""
        return sum(outcome.pairs for outcome in self.outcomes)

    @property
    def too_slow(self) -> list[str]:
        """Scripts without a result, since the machine was too busy for their timers, several times."""
        return [outcome.too_slow for outcome in self.outcomes if outcome.too_slow]

    @property
    def errors(self) -> Counter[int]:
        """How often both answered each error code."""
        return sum((outcome.errors for outcome in self.outcomes), Counter())

    def report(self, seeds: Container[int] | None = None) -> str:
        """Every unexplained difference of these seeds (None: of all), with the steps that led there; empty if there is none."""
        lines = []
        for outcome in self.outcomes:
            if outcome.differences and (seeds is None or outcome.seed in seeds):
                lines += [f"seed {outcome.seed}:", *outcome.steps, *outcome.differences[:6], ""]
        return "\n".join(lines)

    def _play_until_quick(self, seed: int) -> ScriptOutcome:
        for attempt in range(ATTEMPTS_MAX):
            group = f"{self.prefix}-{seed}-{attempt}"
            script = Script(seed, group, group_size_max=self.group_size_max)
            topic_ids: list[Mapping[str, uuid.UUID]] = list(self._topic_ids)
            if script.own_topic:
                topic_ids = [known | make_topics(broker, {script.own_topic: 2}) for broker, known in zip(self.brokers, self._topic_ids)]
            one, other = (Masks(ids) for ids in topic_ids)
            self._masks[group] = one, other
            players = Player(self.brokers[0], group, one), Player(self.brokers[1], group, other)
            comparison = ScriptComparison(script, players, self._slots)
            try:
                return comparison.play()
            except TooSlow as slow:
                comparison.outcome.too_slow = str(slow)
            finally:
                for player in players:
                    player.close()
        return comparison.outcome


def make_topics(bootstrap_servers: str, topics: Mapping[str, int]) -> dict[str, uuid.UUID]:
    """Create topics and wait until they and the coordinator can be used; returns the topic ids."""
    with RawClient(bootstrap_servers) as client:
        wanted = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in topics.items()]
        for made in client.call(CREATE_TOPICS, 7, timeout=10_000, topics=wanted).topics:
            assert made.error_code in (0, TOPIC_ALREADY_EXISTS), made
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not _is_ready(client, topics):
            assert time.monotonic() < deadline, f"{bootstrap_servers}: {list(topics)} are not ready"
            time.sleep(0.02)
        described = client.call(METADATA, 12, topics=[{"name": name} for name in topics], allow_auto_topic_creation=False)
        return {topic.name: topic.topic_id for topic in described.topics}


def _is_ready(client: RawClient, topics: Mapping[str, int]) -> bool:
    for name, count in topics.items():
        (seen,) = client.call(METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics
        asked = [{"partition_index": number, "timestamp": -1} for number in range(count)]
        listed: Any = client.call(LIST_OFFSETS, 1, replica_id=-1, topics=[{"name": name, "partitions": asked}]).topics[0].partitions
        if seen.error_code or any(part.error_code for part in (*seen.partitions, *listed)):
            return False
    if client.call(FIND_COORDINATOR, 0, key="any-group").error_code:
        return False
    return bool(client.call(OFFSET_FETCH, 5, group_id="any-group", topics=[]).error_code == 0)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which scripts, and whether groups are limited in size."""
    add_seed_option(parser, "0-149", "a script each")
    parser.add_argument("--group-size-max", type=int, help="group.max.size of both brokers")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run the scripts on Apache Kafka and Ottla, many at once; scripts without a result because the machine was too slow are printed."""
    limit = {} if options.group_size_max is None else {"group.max.size": str(options.group_size_max)}
    with tempfile.TemporaryDirectory(prefix="ottla-group-scripts-") as name:
        ottla = OttlaProcess(Path(name) / "data", config=CONFIG | limit, command=RUN_IN_ORDER_COMMAND)
        with make_broker("apache-kafka", Path(name), KAFKA_CONFIG | limit) as kafka, ottla:
            servers = kafka.bootstrap_servers, ottla.bootstrap_servers
            comparison = ComparisonRun(*servers, "scripts", group_size_max=options.group_size_max)
            comparison.play(options.seed)
            comparison.compare_records()
    for outcome in sorted(comparison.outcomes, key=lambda outcome: outcome.seed):
        if outcome.too_slow:
            results.say(f"seed {outcome.seed} has no result: {outcome.too_slow}")
            continue
        if outcome.differences:
            results.say("\n".join(outcome.steps))
        results.verdict(f"seed {outcome.seed}", Outcome(outcome.differences, f"{len(outcome.steps)} steps"), seed=outcome.seed)
