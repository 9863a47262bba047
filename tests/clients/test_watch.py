"""`ottla watch` beside real groups: what it stores is the topic, through kills too, and it explains what the groups did."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.client import AdminClient
from ottla.client.fetch.fetcher import Fetcher, topic_ranges
from ottla.client.settings import ClientSettings
from ottla.history.sources.admin import SnapshotReader
from ottla.history.sources.archive import SNAPSHOTS_FOLDER, FolderProblems, LineProblems, find_partitions, read_batches, read_lines
from ottla.history.sources.evidence import Evidence, Kind, Source
from ottla.history.sources.offsets_topic import OffsetsTopic, fetched_batches
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.records.batch import Batch, decode_batch
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until

PARTITIONS = 4


class Watching:
    """`ottla watch` as a process."""

    def __init__(self, bootstrap_servers: str, directory: Path, *more: str) -> None:
        options = ["--bootstrap-server", bootstrap_servers, "--output", str(directory), "--interval", "0.2", "--json", *more]
        command = [sys.executable, "-c", "from ottla.cli.main import main; main()", "watch", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self._line()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        document: dict[str, Any] = json.loads(line)
        return document

    def wait_for_look(self) -> None:
        """Return after a look that began after this call."""
        called_ms = time.time_ns() // 1_000_000
        ended = 0
        while ended < 2:
            ended += self._line()["last_look_ms"] > called_ms

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=20)

    def stop(self) -> dict[str, Any]:
        """End it as an operator does; its summary."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, err
        summary: dict[str, Any] = json.loads(out.splitlines()[-1])
        return summary


@pytest.fixture
def watch() -> Iterator[Callable[..., Watching]]:
    """`watch(bootstrap_servers, directory, *options)` starts `ottla watch`; it has looked once when it returns."""
    made: list[Watching] = []

    def start(*arguments: Any) -> Watching:
        made.append(Watching(*arguments))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.kill()


class Group:
    """Consumers of confluent-kafka in one group, which are polled by `settle`."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str, **settings: Any) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 1_000,
            **settings,
        }
        self._topic = topic
        self.members: list[Any] = []

    def join(self, **settings: Any) -> Any:
        from confluent_kafka import Consumer

        consumer = Consumer(self._settings | settings)
        consumer.subscribe([self._topic])
        self.members.append(consumer)
        self.settle()
        return consumer

    def leave(self, consumer: Any) -> None:
        self.members.remove(consumer)
        consumer.close()
        if self.members:
            self.settle()

    def settle(self) -> None:
        """Wait until the members have all partitions."""

        def is_settled() -> bool:
            for member in self.members:
                member.poll(0.05)
            owned = [len(member.assignment()) for member in self.members]
            return sum(owned) == PARTITIONS and min(owned) > 0

        wait_until(is_settled, "every member has partitions", seconds=30)

    def commit(self, offset: int) -> None:
        from confluent_kafka import TopicPartition

        for member in self.members:
            member.commit(offsets=[TopicPartition(each.topic, each.partition, offset) for each in member.assignment()], asynchronous=False)

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.members.clear()


def new_topic(bootstrap_servers: str, name: str) -> str:
    with RawClient(bootstrap_servers) as client:
        create_topic(client, name, PARTITIONS)
    return name


Stored = list[tuple[int, int, bytes | None, bytes | None]]


def stored(directory: Path) -> Stored:
    """Partition, offset, key and value of every record in an archive or data directory."""
    files, problems = OsFiles(directory), FolderProblems()
    found = [
        (partition, batch)
        for partition, folder in find_partitions(files, CONSUMER_OFFSETS).items()
        for batch in read_batches(files, folder, problems)
    ]
    assert problems == FolderProblems()
    return records_of(found)


def records_of(batches: Sequence[tuple[int, Batch]]) -> Stored:
    return sorted(
        (partition, record.offset, record.key, record.value) for partition, batch in batches for record in decode_batch(batch.data)
    )


def held(bootstrap_servers: str) -> Stored:
    """The same of every record that the topic holds now."""
    settings = ClientSettings(bootstrap_servers=bootstrap_servers)
    with AdminClient(settings) as admin, Fetcher(settings) as fetcher:
        return records_of(
            [
                (each.partition.partition, batch)
                for each in topic_ranges(admin, CONSUMER_OFFSETS)
                for batch in fetched_batches(fetcher, each)
            ]
        )


def evidence(group: str, *, archive: Path | None = None, directory: Path | None = None, cluster: str | None = None) -> list[Evidence]:
    with OffsetsTopic([group]) as source:
        if archive is not None:
            source.add_archive(archive)
        if directory is not None:
            source.add_directory(directory)
        if cluster is not None:
            source.add_cluster(ClientSettings(bootstrap_servers=cluster))
        found = list(source.evidence())
        assert source.problems == []
        return found


def looks(archive: Path) -> list[Evidence]:
    """The evidence of looks at the admin API."""
    return list(SnapshotReader().read(read_lines(OsFiles(archive), SNAPSHOTS_FOLDER, LineProblems())))


def of(found: list[Evidence], source: Source) -> list[Evidence]:
    return [each for each in found if each.source is source]


def test_the_archive_is_the_topic_through_kills(
    kafka_broker: Any, unique_name: Callable[[str], str], watch: Callable[..., Watching], tmp_path: Path
) -> None:
    servers, archive = kafka_broker.bootstrap_servers, tmp_path / "archive"
    group_id = unique_name("group")
    group = Group(servers, group_id, new_topic(servers, unique_name("topic")), **{"partition.assignment.strategy": "range"})
    first = watch(servers, archive)
    one = group.join()
    group.commit(1)
    first.wait_for_look()
    first.kill()
    two = group.join()  # while no program watches
    group.commit(2)
    second = watch(servers, archive)
    assert second.first["records"] > 0
    group.leave(one)
    third = group.join()
    group.commit(3)
    second.wait_for_look()
    summary = second.stop()
    assert (summary["ended"], summary["reads_topic"], summary["failed_looks"]) == (True, True, 0)
    group.leave(two)
    group.leave(third)
    found = stored(archive)
    ends = {partition: offset for partition, offset, _, _ in found}
    # The brokers of other tests' groups may have added records meanwhile, and ours has: those behind the archive's ends.
    assert found == [each for each in held(servers) if each[1] <= ends.get(each[0], -1)]
    assert len({each[:2] for each in found}) == len(found)
    syncs = [each for each in of(evidence(group_id, archive=archive), Source.OFFSETS_TOPIC) if each.kind is Kind.SYNC_COMPLETED]
    assert {len(each.members or ()) for each in syncs} == {1, 2}
    assert [each.generation for each in syncs] == sorted({each.generation for each in syncs})
    third_run = watch(servers, archive, "--duration", "1")
    third_run.process.communicate(timeout=20)
    all_of_it = of(evidence(group_id, archive=archive), Source.OFFSETS_TOPIC)
    assert all_of_it == of(evidence(group_id, cluster=servers), Source.OFFSETS_TOPIC)
    assert all_of_it[-1].kind is Kind.EMPTIED
    events = of(evidence(group_id, archive=archive), Source.GROUP_EVENTS)
    assert bool(events) == (kafka_broker.kind == "ottla")
    assert events == of(evidence(group_id, cluster=servers), Source.GROUP_EVENTS)


def test_looks_at_the_admin_api_show_members_and_lag(
    kafka_broker: Any, unique_name: Callable[[str], str], watch: Callable[..., Watching], tmp_path: Path
) -> None:
    servers, group_id, archive = kafka_broker.bootstrap_servers, unique_name("group"), tmp_path / "archive"
    group = Group(servers, group_id, new_topic(servers, unique_name("topic")), **{"partition.assignment.strategy": "range"})
    group.join()
    group.commit(0)
    running = watch(servers, archive, "--group", group_id)
    running.wait_for_look()
    second = group.join()
    running.wait_for_look()
    group.leave(second)
    running.wait_for_look()
    group.close()
    running.wait_for_look()
    running.stop()
    found = looks(archive)
    assert found[0].kind is Kind.OBSERVED
    assert len(found[0].members or ()) == 1
    kinds = [each.kind for each in found]
    assert kinds.count(Kind.MEMBER_JOINED) >= 1
    assert kinds[-1] is Kind.EMPTIED
    stored_lines = [json.loads(line) for line in read_lines(OsFiles(archive), SNAPSHOTS_FOLDER, LineProblems())]
    (offsets,) = [line["offsets"] for line in stored_lines if line["kind"] == "offsets"]
    assert [each[1:] for each in offsets] == [[number, 0, 0] for number in range(PARTITIONS)]
    # The archive of one group holds no record of another.
    other = [key for _, _, key, _ in stored(archive) if key is not None and group_id.encode() not in key]
    assert other == []
    assert of(evidence(group_id, archive=archive), Source.OFFSETS_TOPIC) == of(evidence(group_id, cluster=servers), Source.OFFSETS_TOPIC)


@pytest.mark.kafka
def test_a_group_of_kip_848(reference: Any, unique_name: Callable[[str], str], watch: Callable[..., Watching], tmp_path: Path) -> None:
    broker = reference.shared()
    servers, group_id = broker.bootstrap_servers, unique_name("group")
    group = Group(servers, group_id, new_topic(servers, unique_name("topic")), **{"group.protocol": "consumer"})
    group.join(**{"client.id": "one"})
    group.commit(1)
    running = watch(servers, tmp_path / "archive", "--group", group_id)
    second = group.join(**{"client.id": "two"})
    running.kill()
    group.leave(second)
    static = group.join(**{"client.id": "static", "group.instance.id": "i"})
    group.members.remove(static)
    static.close()
    group.join(**{"client.id": "static-again", "group.instance.id": "i"})
    group.close()
    watch(servers, tmp_path / "archive", "--group", group_id).stop()
    from_cluster = evidence(group_id, cluster=servers)
    assert evidence(group_id, archive=tmp_path / "archive") == from_cluster
    assert evidence(group_id, directory=Path(broker.log_dir)) == from_cluster
    assert {each.group_type for each in from_cluster if each.kind is not Kind.COMMITS} == {"consumer"}
    joined = [each.client_id for each in from_cluster if each.kind is Kind.MEMBER_JOINED]
    assert joined == ["one", "two", "static"]
    assert [each.instance_id for each in from_cluster if each.kind is Kind.STATIC_REPLACED] == ["i"]
    left = [each for each in from_cluster if each.kind is Kind.MEMBER_LEFT]
    assert [each.client_id for each in left if each.evidence.get("member_epoch") == -2] == ["static", "static-again"]
    assert [each.client_id for each in left if "member_epoch" not in each.evidence] == ["two", "one"]
    epochs = [each.generation for each in from_cluster if each.kind in (Kind.JOIN_COMPLETED, Kind.EMPTIED)]
    assert epochs == sorted(set(epochs))
    targets = [each for each in from_cluster if each.kind is Kind.SYNC_COMPLETED]
    assigned = [sum(len(numbers) for member in each.members or () for numbers in member.assignment.values()) for each in targets]
    # The coordinator may see a topic that was just made a little later than the first member.
    assert assigned[1:] == [PARTITIONS] * (len(assigned) - 1), [(each.generation, each.members) for each in targets]
    reconciled = [each for each in from_cluster if each.kind is Kind.MEMBER_RECONCILED]
    assert {each.client_id for each in reconciled} == {"one", "two", "static"}
    assert {each.client_id for each in reconciled if "revocation_ms" in each.evidence} == {"one"}


def test_two_programs_cannot_write_one_archive(kafka_broker: Any, watch: Callable[..., Watching], tmp_path: Path) -> None:
    watch(kafka_broker.bootstrap_servers, tmp_path / "archive")
    options = ["--bootstrap-server", kafka_broker.bootstrap_servers, "--output", str(tmp_path / "archive"), "--duration", "0"]
    command = [sys.executable, "-c", "from ottla.cli.main import main; main()", "watch", *options]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
    assert second.returncode == 1
    assert "is used by another ottla watch" in second.stderr
