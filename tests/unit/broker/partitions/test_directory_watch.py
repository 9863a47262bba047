"""A data directory that is deleted under a running broker: its logs take no more records, and one line names what was lost."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.config import BrokerConfig
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ApiError, StorageError
from ottla.protocol.model import Record

SEGMENT = f"{0:020d}.log"


class Case:
    """A broker without a socket on a directory, whose watch looks when it is asked to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runner = asyncio.Runner()
        self.cluster = Components(OsFiles(root), BrokerConfig({"log.cleaner.enable": "false"}), clock=lambda: 1_700_000_000_000)
        self.watch = self.cluster.directory_watch
        self.runner.run(self._run(self.cluster.open))

    async def _run(self, work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    def topic(self, name: str) -> PartitionLog:
        made = self.cluster.topics.create(NewTopic(name=name, partitions=1))
        assert not isinstance(made, ApiError)
        self.append(name)
        return self.log(name)

    def log(self, name: str) -> PartitionLog:
        partition = self.cluster.partitions.by_name(name, 0)
        assert partition is not None
        return partition.log

    def append(self, name: str) -> None:
        self.runner.run(self._run(self._append, name))

    def _append(self, name: str) -> None:
        partition = self.cluster.partitions.by_name(name, 0)
        assert partition is not None
        partition.append_records([Record(0, 5, None, b"x")], now_ms=5)

    def look(self) -> None:
        self.runner.run(self.watch.sample())

    def health(self) -> list[str]:
        self.runner.run(self.cluster.health.sample())
        assert self.cluster.health.snapshot.is_healthy is not bool(self.cluster.health.snapshot.offline)
        return [f"{each.topic}-{each.partition}" for each in self.cluster.health.snapshot.offline]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    made = Case(tmp_path / "data")
    yield made
    made.runner.run(made.cluster.cleaner.stop())
    made.runner.close()


def test_what_is_there_is_left_alone(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    log = case.topic("t")
    for _ in range(3):
        case.look()
        case.append("t")
    assert (log.failure, log.log_end_offset, case.health()) == (None, 4, [])
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_the_root_is_deleted_and_every_log_says_no(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.topic("t")
    case.topic("u")
    case.look()
    shutil.rmtree(case.root)
    case.append("t")  # nothing keeps the kernel from taking it
    case.look()
    for name in ("t", "u"):
        with pytest.raises(StorageError, match="is gone: another program deleted or moved it; start the broker again"):
            case.append(name)
    with pytest.raises(StorageError):
        case.cluster.topics.create(NewTopic(name="v", partitions=1))
    assert set(case.health()) == {"__cluster_metadata-0", "t-0", "u-0"}
    case.look()
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert f"the data directory {case.root} is gone" in line
    assert "3 logs take no more records, t-0 with offsets 1 to 1, which may have been acknowledged after that" in line


def test_nothing_is_made_where_the_root_was(case: Case) -> None:
    case.topic("t")
    unopened = case.cluster.topics.create(NewTopic(name="u", partitions=1))
    assert not isinstance(unopened, ApiError)
    shutil.rmtree(case.root)
    with pytest.raises(StorageError, match="is gone"):
        case.append("u")
    with pytest.raises(StorageError):
        case.runner.run(case.cluster.log_manager.checkpoint())
    assert not case.root.exists()
    # Another program makes a directory of that name: it is not ours, and gets no file of ours.
    case.root.mkdir()
    case.look()
    with pytest.raises(StorageError, match="is gone"):
        case.runner.run(case.cluster.log_manager.checkpoint())
    with pytest.raises(StorageError):
        case.runner.run(case._run(case.cluster.close))
    assert list(case.root.iterdir()) == []


@pytest.mark.parametrize("what", ["deleted", "moved", "replaced", "its file deleted"])
def test_one_partition_is_gone_and_the_others_live(case: Case, what: str, caplog: pytest.LogCaptureFixture) -> None:
    gone, other = case.topic("t"), case.topic("u")
    case.look()
    directory = case.root / "t-0"
    match what:
        case "deleted":
            shutil.rmtree(directory)
        case "moved":
            directory.rename(case.root / "aside")
        case "replaced":
            data = (directory / SEGMENT).read_bytes()
            shutil.rmtree(directory)
            directory.mkdir()
            (directory / SEGMENT).write_bytes(data)
        case "its file deleted":
            (directory / SEGMENT).unlink()
    case.append("t")
    case.look()
    with pytest.raises(StorageError, match=f"t-0/{SEGMENT} is gone with offsets 1 to 1, which may have been acknowledged after that"):
        case.append("t")
    case.append("u")
    assert (gone.failure is None, other.failure) == (False, None)
    assert case.health() == ["t-0"]
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith(f"t-0 is offline: t-0/{SEGMENT} is gone")


def test_a_partition_without_writes_is_checked_when_names_change(case: Case) -> None:
    log = case.topic("t")
    case.look()
    shutil.rmtree(case.root / "t-0")
    case.look()
    assert log.failure is not None
    assert "offsets" not in log.failure


def test_the_metadata_log_is_watched_too(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.look()
    shutil.rmtree(case.root / "__cluster_metadata-0")
    case.look()
    with pytest.raises(StorageError, match=f"__cluster_metadata-0/{SEGMENT} is gone"):
        case.cluster.topics.create(NewTopic(name="t", partitions=1))
    assert case.health() == ["__cluster_metadata-0"]
    assert f"__cluster_metadata-0/{SEGMENT} is gone" in caplog.text


def test_what_the_broker_itself_deletes_is_no_fault(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.topic("t")
    case.look()
    case.append("t")
    look_at_files, looked = case.watch._identities, []

    async def delete() -> None:
        assert case.cluster.topic_deletion.delete("t") is None
        await case.cluster.partitions.when_moved(["t"])

    async def look() -> None:
        loop = asyncio.get_running_loop()

        def delete_first(asked: Any) -> Any:
            asyncio.run_coroutine_threadsafe(delete(), loop).result(60)
            looked.extend(look_at_files(asked))
            return looked

        monkeypatch.setattr(case.watch, "_identities", delete_first)
        await case.watch.sample()

    case.runner.run(look())
    assert (f"t-0/{SEGMENT}", None) in [(file, identity) for _, file, identity in looked]
    monkeypatch.undo()
    case.topic("t")
    case.look()
    assert case.health() == []


def test_a_full_segment_is_no_fault(case: Case) -> None:
    made = case.cluster.topics.create(NewTopic(name="t", partitions=1, configs={"segment.ms": "1"}))
    assert not isinstance(made, ApiError)
    for at_ms in (5, 500_000):
        case.runner.run(case._run(lambda at_ms=at_ms: case.log("t").append_records([Record(0, at_ms, None, b"x")], now_ms=at_ms)))
        case.look()
    log = case.log("t")
    assert log.active_file == f"t-0/{1:020d}.log"
    assert log.failure is None
