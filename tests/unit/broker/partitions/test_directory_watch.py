"""Data that is deleted or truncated under a running broker: its logs take no more records, and a line names what was lost, then and at the
next start."""

import asyncio
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.config import BrokerConfig
from ottla.log.file_system import LogFileChanged
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

    def restart(self) -> None:
        """Another broker on the directory, after the end of this one's process."""
        self.runner.run(self.cluster.cleaner.stop())
        self.runner.close()
        self.__init__(self.root)  # type: ignore[misc]

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
    look_at_files, looked = case.watch._look, []

    async def delete() -> None:
        assert case.cluster.topic_deletion.delete("t") is None
        await case.cluster.partitions.when_moved(["t"])

    async def look() -> None:
        loop = asyncio.get_running_loop()

        def delete_first(asked: Any) -> Any:
            asyncio.run_coroutine_threadsafe(delete(), loop).result(60)
            looked.extend(look_at_files(asked))
            return looked

        monkeypatch.setattr(case.watch, "_look", delete_first)
        await case.watch.sample()

    case.runner.run(look())
    assert (f"t-0/{SEGMENT}", None) in [(found.file, found.identity) for found in looked]
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
    assert log.active_file == (f"t-0/{1:020d}.log", log.size_bytes // 2)
    assert log.failure is None


@pytest.mark.parametrize(("cut", "end"), [(2.0, 2), (1.5, 2), (0.25, 3)], ids=["behind a batch", "in a batch", "in the last batch"])
def test_a_truncated_log_takes_nothing_behind_the_hole_and_the_next_start_says_what_is_missing(
    case: Case, caplog: pytest.LogCaptureFixture, cut: float, end: int
) -> None:
    """`cut` batches of four are missing."""
    log = case.topic("t")
    for _ in range(3):
        case.append("t")
    file = case.root / "t-0" / SEGMENT
    written = file.stat().st_size
    left = written - int(cut * (written // 4))
    os.truncate(file, left)
    says = f"t-0/{SEGMENT} has {left} of the {written} bytes that were written to it: another program truncated it"
    with pytest.raises(LogFileChanged, match=says):
        case.append("t")
    for offset in (0, 3):  # what is left, with what should follow it; what is not
        with pytest.raises(StorageError, match=says):
            log.read(offset, 10_000)
    with pytest.raises(StorageError, match=says):
        log.timestamps().first_at(0)
    assert (log.log_end_offset, file.stat().st_size) == (4, left)
    case.look()
    assert case.health() == ["t-0"]
    assert caplog.messages == [f"t-0 is offline: {says}; start the broker again"]
    case.restart()
    assert (
        f"t-0 ends at offset {end}, but had records up to offset 4 (according to replication-offset-checkpoint): offsets {end} to 3 are"
        in (caplog.text)
    )
    assert case.log("t").log_end_offset == end


def test_behind_a_batch_whose_length_is_damaged_nothing_is_taken_any_more(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    log = case.topic("t")
    for _ in range(3):
        case.append("t")
    file = case.root / "t-0" / SEGMENT
    batch_bytes = file.stat().st_size // 4
    with file.open("r+b") as opened:
        opened.seek(2 * batch_bytes + 8)
        opened.write((1 << 20).to_bytes(4, "big"))
    says = f"t-0/{SEGMENT} is damaged at byte {2 * batch_bytes}: no record batch begins there"
    with pytest.raises(StorageError, match=says):
        log.read(3, 10_000)
    with pytest.raises(StorageError, match=says):
        case.append("t")
    assert log.log_end_offset == 4
    case.restart()
    assert f"is damaged at byte {2 * batch_bytes}: {2 * batch_bytes} bytes from offset 2" in caplog.text


def test_a_truncated_log_is_noticed_before_it_is_used_again(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.topic("t")
    os.truncate(case.root / "t-0" / SEGMENT, 0)
    os.truncate(case.root / "__cluster_metadata-0" / SEGMENT, 10)
    case.look()
    assert case.health() == ["__cluster_metadata-0", "t-0"]
    assert [line.partition(" has ")[0] for line in caplog.messages] == [
        f"t-0 is offline: t-0/{SEGMENT}",
        f"__cluster_metadata-0/{SEGMENT}",
    ]


def test_the_start_after_a_deletion_says_what_is_missing(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.topic("t")
    shutil.rmtree(case.root / "t-0")
    case.append("t")
    case.look()
    caplog.clear()
    case.restart()
    assert "1 partitions had records at the last checkpoint, and their directories are gone: t-0" in caplog.text


def test_a_directory_that_is_deleted_before_it_is_used_is_not_made_again(case: Case) -> None:
    topic = case.topic("t")
    case.runner.run(case._run(case.cluster.close))
    assert topic.log_end_offset == 1
    case.restart()
    shutil.rmtree(case.root / "t-0")

    async def open_it() -> None:
        with pytest.raises(StorageError, match="t-0 is gone: another program deleted or moved it; start the broker again"):
            await case.cluster.partitions.open(case.cluster.cluster_metadata.topics["t"], 0)

    case.runner.run(open_it())
    assert case.health() == ["t-0"]
    assert not (case.root / "t-0").exists()


def test_a_full_segment_that_is_deleted_is_missed_when_it_is_read(case: Case) -> None:
    made = case.cluster.topics.create(NewTopic(name="t", partitions=1, configs={"segment.ms": "1"}))
    assert not isinstance(made, ApiError)
    log = case.log("t")
    for at_ms in (5, 500_000, 1_000_000):
        case.runner.run(case._run(lambda at_ms=at_ms: log.append_records([Record(0, at_ms, None, b"x")], now_ms=at_ms)))
    (case.root / "t-0" / SEGMENT).unlink()
    with pytest.raises(StorageError, match=f"t-0/{SEGMENT} is gone: another program deleted or moved it"):
        log.read(0, 100)
    assert not (case.root / "t-0" / SEGMENT).exists()
    assert case.health() == ["t-0"]
    case.runner.run(case.cluster.partitions.settle())


def test_a_permission_that_comes_back_makes_topics_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    log = case.topic("t")
    open_it = os.open

    def refuse(path: str, *arguments: int, **options: int) -> int:
        if "/__cluster_metadata-0" in path or "/t-0" in path:
            raise PermissionError(errno.EACCES, "permission denied")
        return open_it(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match="permission denied"):
        case.cluster.topics.create(NewTopic(name="u", partitions=1))
    with pytest.raises(StorageError, match="permission denied"):
        log.flush()
    monkeypatch.undo()
    assert not isinstance(case.cluster.topics.create(NewTopic(name="u", partitions=1)), ApiError)
    log.flush()
    assert (log.recovery_point, case.health()) == (1, [])
