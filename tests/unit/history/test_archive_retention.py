"""What is removed from an archive, and what stays."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.history.sources.admin import SnapshotReader, note_line
from ottla.history.sources.archive import SNAPSHOTS_FOLDER, ArchiveWriter, FolderProblems, LineProblems, read_batches, read_lines
from ottla.history.sources.archive_retention import ArchiveRetention, Retention, parse_retention
from ottla.history.sources.evidence import Kind
from ottla.history.sources.offsets_topic import OffsetsTopic
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.protocol.model import Record
from ottla.protocol.records.batch import Batch, decode_batch, encode_batch, read_header
from tests.support.kit.offsets_topic_records import Pair, classic_group, commit, member

FOLDER = f"{CONSUMER_OFFSETS}-0"


def batch(offset: int, at_ms: int, *pairs: Pair, **more: Any) -> Batch:
    data = bytes(encode_batch([Record(offset + at, at_ms, *pair) for at, pair in enumerate(pairs)], base_offset=offset, **more))
    return Batch(read_header(data), data)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Callable[..., ArchiveWriter]]:
    """`archive(retention)` opens it; the one before is closed."""
    opened: list[ArchiveWriter] = []

    def start(retention: Retention) -> ArchiveWriter:
        if opened:
            opened.pop().close()
        opened.append(ArchiveWriter(OsFiles(tmp_path), now_ms=0, segment_bytes=1, segment_ms=retention.segment_ms))
        return opened[-1]

    yield start
    opened.pop().close()


def offsets(directory: Path, folder: str = FOLDER) -> list[int]:
    problems = FolderProblems()
    found = [record.offset for each in read_batches(OsFiles(directory), folder, problems) for record in decode_batch(each.data)]
    assert problems == FolderProblems()
    return found


def names(directory: Path, folder: str = FOLDER) -> list[int]:
    return sorted(int(path.stem) for path in (directory / folder).iterdir())


def fill(writer: ArchiveWriter) -> None:
    """A file for each batch: two members, commits, one member, commits, two members again."""
    both, one = classic_group("g", 1, member("a", [0]), member("b", [1])), classic_group("g", 2, member("a", [0, 1]))
    writer.append(CONSUMER_OFFSETS, 0, [batch(0, 1_000, both, classic_group("gone", 1, member("x")))])
    writer.append(CONSUMER_OFFSETS, 0, [batch(2, 2_000, commit("g", 0, 5), commit("g", 0, 6), (both[0][:-4] + b"gone", None))])
    writer.append(CONSUMER_OFFSETS, 0, [batch(5, 3_000, one)])
    writer.append(CONSUMER_OFFSETS, 0, [batch(6, 4_000, commit("g", 0, 7))])
    writer.append(CONSUMER_OFFSETS, 0, [batch(7, 9_000, classic_group("g", 3, member("a", [0]), member("c", [1])))])


def test_old_files_go_and_the_last_record_of_each_key_stays(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(age_ms=5_000))
    fill(writer)
    retention = ArchiveRetention(writer, Retention(age_ms=5_000))
    assert retention.apply(5_000) == 0
    assert retention.apply(8_500) == 2  # the file of 4,000 and the last one are kept
    assert (names(tmp_path), offsets(tmp_path)) == ([0, 6, 7], [1, 3, 5, 6, 7])
    assert retention.apply(8_500) == 0
    assert retention.apply(9_500) == 1
    assert (names(tmp_path), offsets(tmp_path)) == ([0, 7], [1, 5, 6, 7])
    assert retention.size_bytes > 0


def test_a_later_diagnosis_knows_who_was_a_member_at_the_start(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(age_ms=5_000))
    fill(writer)
    ArchiveRetention(writer, Retention(age_ms=5_000)).apply(9_500)
    with OffsetsTopic(["g"]) as source:
        source.add_archive(tmp_path)
        found = [each for each in source.evidence() if each.kind is Kind.SYNC_COMPLETED]
    assert [[each.member_id for each in item.members or ()] for item in found] == [["a"], ["a", "c"]]


def test_a_partition_without_new_records_keeps_its_position(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(age_ms=5_000))
    fill(writer)
    writer.append(CONSUMER_OFFSETS, 0, [batch(8, 9_001, commit("g", 1, None))])
    assert ArchiveRetention(writer, Retention(age_ms=5_000)).apply(60_000) == 5
    assert (names(tmp_path), offsets(tmp_path)) == ([0], [1, 6, 7])
    assert writer.positions(CONSUMER_OFFSETS) == {0: 9}
    assert archive(Retention(age_ms=5_000)).positions(CONSUMER_OFFSETS) == {0: 9}


def test_what_a_kill_leaves_is_removed_by_the_next_run(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(age_ms=5_000))
    fill(writer)
    left = {number: (tmp_path / FOLDER / f"{number:020d}.log").read_bytes() for number in (2, 5)}
    ArchiveRetention(writer, Retention(age_ms=5_000)).apply(8_500)
    for number, data in left.items():
        (tmp_path / FOLDER / f"{number:020d}.log").write_bytes(data)
    assert ArchiveRetention(archive(Retention()), Retention(age_ms=5_000)).apply(8_500) == 2
    assert (names(tmp_path), offsets(tmp_path)) == ([0, 6, 7], [1, 3, 5, 6, 7])


def test_records_of_transactions_do_not_stay(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(age_ms=5_000))
    of_transaction = batch(0, 1_000, commit("g", 0, 5), is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    writer.append(CONSUMER_OFFSETS, 0, [of_transaction])
    writer.append(CONSUMER_OFFSETS, 0, [batch(1, 1_000, commit("g", 0, 4))])
    ArchiveRetention(writer, Retention(age_ms=5_000)).apply(60_000)
    assert offsets(tmp_path) == [1]


def test_a_bound_on_the_size_removes_the_oldest_files_first(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(size_bytes=1_000))
    for number in range(10):
        for partition in range(2):
            pair = commit("g", partition, number)
            writer.append(CONSUMER_OFFSETS, partition, [batch(number, 1_000 * (2 * number + partition), pair)])
    retention = ArchiveRetention(writer, Retention(size_bytes=1_000))
    for _ in range(5):
        retention.apply(60_000)
    total = sum(path.stat().st_size for folder in (FOLDER, f"{CONSUMER_OFFSETS}-1") for path in (tmp_path / folder).iterdir())
    assert 500 < total <= 1_000
    for folder in (FOLDER, f"{CONSUMER_OFFSETS}-1"):
        numbers = names(tmp_path, folder)
        assert numbers[0] == 0  # what stays of those before
        assert numbers[1:] == list(range(numbers[1], 10))
    retention = ArchiveRetention(writer, Retention(size_bytes=10))
    retention.apply(60_000)
    assert names(tmp_path) == [0, 9]  # the file that is written to is never removed


def test_group_events_go_whole(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(age_ms=5_000))
    for number in range(3):
        writer.append(GROUP_EVENTS, 0, [batch(number, 1_000 + number, (b"g", b"{}"))])
    assert ArchiveRetention(writer, Retention(age_ms=5_000)).apply(60_000) == 2
    assert offsets(tmp_path, f"{GROUP_EVENTS}-0") == [2]


def look(at_ms: int, *lines: dict[str, Any]) -> list[bytes]:
    return [json.dumps(each, separators=(",", ":")).encode() for each in [*lines, {"kind": "look", "at_ms": at_ms, "groups": 1}]]


def group(at_ms: int, name: str, *members: str, state: str = "Stable") -> dict[str, Any]:
    described = [
        {
            "member_id": each,
            "instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "session_timeout_ms": -1,
            "rebalance_timeout_ms": -1,
        }
        for each in members
    ]
    fields = {"group_type": "classic", "state": state, "protocol": "range", "epoch": None, "target_epoch": None, "members": described}
    return {"kind": "group", "at_ms": at_ms, "group": name, **fields}


def test_looks_keep_the_last_state_of_each_group(archive: Callable[..., ArchiveWriter], tmp_path: Path) -> None:
    writer = archive(Retention(age_ms=5_000))
    offset_lines: list[Sequence[Any]] = [[["t", 0, 1, 5], ["t", 1, 2, 5]], [["t", 0, 3, 5]]]
    names_line = {"kind": "topics", "at_ms": 0, "names": {"id": "t"}}
    writer.append_lines(
        look(1_000, names_line, group(1_000, "g", "a"), {"kind": "offsets", "at_ms": 1_000, "group": "g", "offsets": offset_lines[0]})
    )
    writer.append_lines(
        look(2_000, group(2_000, "gone", "x"), {"kind": "offsets", "at_ms": 2_000, "group": "g", "offsets": offset_lines[1]})
    )
    writer.append_lines([note_line(2_500, "a sentence"), *look(3_000, group(3_000, "gone", state="Dead"), group(3_000, "g", "a", "b"))])
    writer.append_lines(look(9_000, group(9_000, "g", "b")))
    assert ArchiveRetention(writer, Retention(age_ms=5_000)).apply(9_500) == 2
    lines = [json.loads(line) for line in read_lines(OsFiles(tmp_path), SNAPSHOTS_FOLDER, LineProblems())]
    assert [(each["kind"], each["at_ms"]) for each in lines] == [
        ("topics", 3_000),
        ("group", 3_000),
        ("offsets", 3_000),
        ("look", 3_000),
        ("group", 9_000),
        ("look", 9_000),
    ]
    assert lines[2]["offsets"] == [["t", 0, 3, 5], ["t", 1, 2, 5]]
    found = list(SnapshotReader().read(read_lines(OsFiles(tmp_path), SNAPSHOTS_FOLDER, LineProblems())))
    assert [(each.kind, each.at_ms) for each in found] == [(Kind.OBSERVED, 3_000), (Kind.MEMBER_LEFT, 9_000), (Kind.SYNC_COMPLETED, 9_000)]


def test_the_texts_of_a_retention() -> None:
    assert parse_retention(["7d", "10GB"]) == Retention(7 * 86_400_000, 10**10)
    assert parse_retention(["512 MiB"]) == Retention(None, 512 * 2**20)
    assert parse_retention([]) == Retention()
    for texts, words in (
        (["7"], "no length of time"),
        (["7d", "8d"], "one time"),
        (["1GB", "2GB"], "one size"),
        (["0s"], "more than 0"),
        (["-1GB"], "one size"),
    ):
        with pytest.raises(ValueError, match=words):
            parse_retention(texts)
