"""franz-go, Go's client: transactions at both levels, zombies, a copier that is killed, and members of both group protocols.

Needs Go, which builds the program in `client/` once (a minute; its modules come from Go's module proxy).
"""

import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.cli.processes import ToolMissing
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from trials.harness.runs import Outcome, Results
from trials.harness.world import CACHE, Program, add_broker_option, make_broker

NAME = "franz-go"
SOURCE: Final = Path(__file__).parent / "client"
SAFE_DOWNGRADE: Final = 2
PARTITIONS: Final = 4
RECORDS: Final = 300
KILLED_AFTER: Final = 100
CONFIG: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
SECONDS_MAX: Final = 60


def build() -> Path:
    """The program, built if it is not there yet. Raises ToolMissing without Go."""
    if shutil.which("go") is None:
        raise ToolMissing("needs Go (https://go.dev) to build franz-go's program")
    program = CACHE.resolve() / "franz-go" / "client"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=SOURCE, check=True, env={**os.environ, "GOFLAGS": "-mod=mod"})
    return program


class World:
    """A broker and the programs of one run."""

    def __init__(self, client: Path, directory: Path, servers: str) -> None:
        self.servers = servers
        self._client, self._directory = client, directory
        self._programs: list[Program] = []
        self.raw = RawClient(servers)
        self.wrong: list[str] = []

    def program(self, *words: str) -> Program:
        """Start the client with these words, the servers after the first."""
        started = Program(self._directory / f"client-{len(self._programs)}", [str(self._client), words[0], self.servers, *words[1:]])
        self._programs.append(started)
        started.start()
        return started

    def check(self, what: str, is_right: Any, found: Any) -> None:
        if not is_right:
            self.wrong.append(f"{what}: {found}")

    def run(self, *words: str) -> str:
        """What the client prints with these words until it ends."""
        program = self.program(*words)
        wait_until(lambda: not program.is_running, lambda: f"the end of {words}: {lines(program)}", seconds=SECONDS_MAX)
        return program.log.read_text()

    def topic(self, name: str, partitions: int = 1) -> str:
        create_topic(self.raw, name, partitions)
        return name

    def committed(self, topic: str, partitions: int = 1) -> list[str]:
        """All values of a topic that a reader of committed records sees, partition by partition."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader", "enable.partition.eof": True})
        values, ends = [], 0
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while ends < partitions:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, f"the end of {topic}"
            if message.error() is None:
                values.append((message.value() or b"").decode())
            else:
                ends += 1
        consumer.close()
        return values

    def close(self) -> None:
        for program in self._programs:
            program.kill()
        self.raw.close()


def lines(program: Program) -> list[str]:
    """What a program has printed."""
    return program.log.read_text().splitlines() if program.log.exists() else []


def transactions(world: World, level: int) -> None:
    """What commits is read, what aborts is not, and a zombie commits nothing; at a level of transaction.version."""
    suffix = f"level-{level}"
    said = world.run("transact", world.topic(f"transact-{suffix}"), f"transact-{suffix}")
    found = world.committed(f"transact-{suffix}")
    world.check(f"transactions ({suffix})", found == [f"{letter}{number}" for letter in "ac" for number in range(10)], (said, found))
    said = world.run("zombie", world.topic(f"zombie-{suffix}"), f"zombie-{suffix}")
    found = world.committed(f"zombie-{suffix}")
    world.check(f"a zombie ({suffix})", "fenced" in said and found == [f"b{number}" for number in range(10)], (said, found))


def copying(world: World, level: int) -> None:
    """A copier is killed in its midst, a second one with its id continues: every record once."""
    source, target, name = f"source-{level}", f"target-{level}", f"copy-{level}"
    world.topic(source, PARTITIONS)
    world.topic(target, PARTITIONS)
    producer = Producer({"bootstrap.servers": world.servers})
    for number in range(RECORDS):
        producer.produce(source, str(number), partition=number % PARTITIONS)
    producer.flush()
    words = ("copy", name, source, target, name)

    def copied(program: Program) -> int:
        return max((int(line.split()[1]) for line in lines(program) if line.startswith("copied")), default=0)

    first = world.program(*words)
    wait_until(lambda: copied(first) >= KILLED_AFTER, lambda: f"a copy: {lines(first)}", seconds=SECONDS_MAX)
    first.kill()
    second = world.program(*words)
    wait_until(lambda: len(world.committed(target, PARTITIONS)) >= RECORDS, lambda: f"all: {lines(second)}", seconds=2 * SECONDS_MAX)
    second.stop()
    found = sorted(map(int, world.committed(target, PARTITIONS)))
    world.check(
        f"a killed copier (level {level})", found == list(range(RECORDS)), f"{len(found)} records, {len(set(found))} of them different"
    )


def members(world: World, protocol: str) -> None:
    """Two members share a topic, one leaves, and one that is left has all; every record is read."""
    topic = world.topic(f"read-{protocol}", PARTITIONS)
    words = ("member", f"group-{protocol}", topic, protocol)

    def owned(program: Program) -> set[str]:
        held: set[str] = set()
        for line in lines(program):
            what, _, numbers = line.partition(" ")
            found = set(re.findall(r"\d+", numbers))
            held = held | found if what == "assigned" else held - found if what in ("revoked", "lost") else held
        return held

    def share(running: list[Program], *counts: int) -> None:
        wait_until(
            lambda: [len(owned(program)) for program in running] == list(counts),
            lambda: f"{protocol} members with {counts} partitions: {[lines(program) for program in running]}",
            seconds=SECONDS_MAX,
        )

    first = world.program(*words)
    share([first], PARTITIONS)
    second = world.program(*words)
    share([first, second], PARTITIONS // 2, PARTITIONS // 2)
    producer = Producer({"bootstrap.servers": world.servers})
    for number in range(40):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    producer.flush()

    def read() -> list[int]:
        return sorted(int(line.split()[1]) for program in (first, second) for line in lines(program) if line.startswith("read"))

    wait_until(lambda: len(read()) >= 40, lambda: f"all records: {read()}", seconds=SECONDS_MAX)
    world.check(f"records of {protocol} members", read() == list(range(40)), read())
    second.stop()
    share([first], PARTITIONS)


def scenario(client: Path, kind: str, directory: Path) -> Outcome:
    with make_broker(kind, directory, CONFIG) as broker:
        world = World(client, directory, broker.bootstrap_servers)
        try:
            for protocol in ("classic", "consumer"):
                members(world, protocol)
            for level in (2, 1):
                if level == 1:
                    update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": SAFE_DOWNGRADE}
                    answer = world.raw.call(ApiKey.UPDATE_FEATURES, 1, feature_updates=[update], timeout=10_000)
                    world.check("transaction.version", answer.error_code == 0, answer)
                transactions(world, level)
                copying(world, level)
        finally:
            world.close()
    return Outcome(world.wrong, "members of both protocols; transactions, zombies and a killed copier at levels 2 and 1")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The broker."""
    add_broker_option(parser)


def run(options: argparse.Namespace, results: Results) -> None:
    """One run."""
    client = build()
    results.run_one(options.broker, lambda directory: scenario(client, options.broker, directory))
