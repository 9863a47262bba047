"""The assignors beside Kafka's own Java classes: milliseconds of one assignment of 20,000 partitions (20 topics) to 1,000 members.

Initially, and with that assignment after one member left or joined; members subscribe to all topics, or each to ten of its own. Both have
the same input, in memory already; Java's runs are in one JVM with its own settings, the first runs of each case included.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from peers import APACHE_KAFKA, CACHE, HERE, OTTLA, arguments
from report import Metric, Report, at_most

from ottla.cli.processes import ToolMissing, find_java
from ottla.groups.assignors import Assignor, Subscriber, assignors
from tests.support.processes import LineProgram, compile_java
from tests.support.reference.apache_kafka import ARTIFACTS, VERSION
from tests.support.reference.maven import fetch_jars, report_progress

MEMBERS, TOPICS, PARTITIONS = 1_000, 20, 1_000
MEMBERS_SMALL, PARTITIONS_SMALL = 10, 20
JAVA = HERE.parent / "tests" / "java" / "Assignors.java"
JAVA_SECONDS_MAX = 1_800


@dataclass(frozen=True)
class Input:
    """What is assigned at one moment."""

    moment: str
    members: Sequence[Subscriber]
    partitions: Mapping[str, int]


def inputs(assignor: Assignor, subscriptions: Sequence[frozenset[str]], partitions: Mapping[str, int]) -> Iterator[Input]:
    """The members initially, then with that assignment when one has left, and when one has joined."""
    members = [Subscriber(member_id=f"consumer-{number:04}", topics=topics) for number, topics in enumerate(subscriptions)]
    newest = members.pop()
    yield Input("initially", members, partitions)
    owned = assignor.assign(members, partitions)
    settled = [replace(each, owned=owned[each.member_id], generation=1) for each in members]
    yield Input("one leaves", settled[1:], partitions)
    yield Input("one joins", [*settled, newest], partitions)


def measure_ottla(assignor: Assignor, given: Input, rounds: int) -> list[float]:
    """Milliseconds of each assignment."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        assignor.assign(given.members, given.partitions)
        found.append((time.perf_counter() - began) * 1_000)
    return found


def measure_java(program: LineProgram, assignor: Assignor, given: Input, rounds: int) -> list[float]:
    """The same of Java's class."""
    members = [
        {
            "id": each.member_id,
            "topics": sorted(each.topics),
            "owned": each.owned if assignor.is_cooperative else {},
            "generation": each.generation,
            "userData": None if (data := assignor.user_data(each.owned or None, each.generation)) is None else data.hex(),
        }
        for each in given.members
    ]
    topics = {topic: [[]] * count for topic, count in given.partitions.items()}
    since = len(program.events)
    program.send(json.dumps([{"assignor": assignor.name, "topics": topics, "members": members, "runs": rounds}]))
    [answer] = program.wait_for(lambda seen: seen and seen[-1], "an assignment", since=since, seconds=JAVA_SECONDS_MAX)["answers"]
    return list(answer["millis"])


def start_java(directory: Path) -> LineProgram:
    """A JVM with its own settings. Raises ToolMissing."""
    fetch_jars(ARTIFACTS, CACHE, what=f"Apache Kafka {VERSION}")
    class_path = compile_java(JAVA, str(CACHE / "*"), directory)
    return LineProgram([str(find_java()), "-Xmx1G", "-cp", class_path, "Assignors"], error_path=directory / "errors")


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report = Report("Assignors")
    rng = Random(1)
    partitions = dict.fromkeys((f"topic-{number:02}" for number in range(TOPICS)), PARTITIONS_SMALL if wanted.small else PARTITIONS)
    count = (MEMBERS_SMALL if wanted.small else MEMBERS) + 1
    subscriptions = {
        "all topics": [frozenset(partitions)] * count,
        "ten topics each": [frozenset(rng.sample(sorted(partitions), TOPICS // 2)) for _ in range(count)],
    }
    program = None
    with tempfile.TemporaryDirectory() as directory:
        if APACHE_KAFKA in wanted.peers:
            try:
                program = start_java(Path(directory))
            except ToolMissing as missing:
                report_progress(f"apache-kafka is left out: {missing}")
        for assignor in assignors().values():
            for kind, subscribed in subscriptions.items():
                for given in inputs(assignor, subscribed, partitions):
                    name = f"{assignor.name}, {kind}, {given.moment}"
                    if wanted.only not in name:
                        continue
                    metric = Metric(name, "ms", "<= 1,000 ms", at_most(1_000))
                    for value in measure_ottla(assignor, given, wanted.rounds):
                        report.add(metric, OTTLA, value)
                    for value in measure_java(program, assignor, given, wanted.rounds) if program is not None else ():
                        report.add(metric, APACHE_KAFKA, value)
        if program is not None:
            program.close()
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
