"""Parts of a file have each of its lines once, and give together what the whole gives, in one process or in two."""

import gzip
import io
import os
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.sources import log_files as log_parts
from ottla.history.sources.evidence import Evidence, Source, SourceError
from ottla.history.sources.log_files import (
    BLOCK_BYTES,
    LogFiles,
    group_rotated,
    inflate,
    lines_between,
    matching_files,
    read_parts,
    split_file,
)
from ottla.history.sources.log_lines import LogCounts, Skip
from ottla.testing.waiting import wait_until

LOG = Path(__file__).parents[3] / "data" / "logs" / "apache-kafka-4.3.0.log"


@given(st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b""))).map(b"\n".join), st.integers(1, 9), st.integers(1, 5))
def test_each_line_is_in_the_part_that_it_begins_in(content: bytes, part_bytes: int, block_bytes: int) -> None:
    class Blocks(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            return super().read(block_bytes)

    parts = []
    for start in range(0, max(1, len(content)), part_bytes):
        parts.append(b"".join(lines_between(Blocks(content), start, min(start + part_bytes, len(content)))))
    assert b"".join(parts) == content
    assert all(part.endswith(b"\n") for part in parts[:-1] if part and b"".join(parts[parts.index(part) + 1 :]))


def read(path: Path, processes: int) -> tuple[list[Evidence], LogCounts]:
    results = list(read_parts(split_file(Source.BROKER_LOG, "server.log", path, None), zone=UTC, processes=processes))
    return [each for result in results for each in result.evidence], sum((result.counts for result in results), LogCounts())


def test_parts_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(LOG, 1)
    assert len(whole[0]) > 100
    for size in (3_000, 10_001, 50_000):
        monkeypatch.setattr(log_parts, "PART_BYTES", size)
        assert len(split_file(Source.BROKER_LOG, "server.log", LOG, None)) > 1
        assert read(LOG, 1) == whole


def test_two_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    one = read(LOG, 1)
    monkeypatch.setattr(log_parts, "PART_BYTES", 50_000)
    monkeypatch.setattr(log_parts, "SIDE_BY_SIDE_BYTES", 0)
    assert read(LOG, 2) == one


def test_what_was_remembered_in_the_file_before_is_known(tmp_path: Path) -> None:
    """The reason of a leave is a line before the rebalance: here the last of the rotated file."""
    prefix = "[2026-11-22 14:31:07,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=12]"
    left = (
        f"{prefix} [Group g] Member m has left group through explicit `LeaveGroup` request; client reason: the consumer is being closed\n"
    )
    preparing = f"{prefix} Preparing to rebalance group g in state PreparingRebalance with old generation 2 (reason: "
    (tmp_path / "server.log.1").write_text(left)
    (tmp_path / "server.log").write_text(f"{preparing}explicit `LeaveGroup` request for (m) members.).\n")
    [part] = split_file(Source.BROKER_LOG, "server.log", tmp_path / "server.log", tmp_path / "server.log.1")
    [result] = read_parts([part], zone=UTC, processes=1)
    assert [(each.trigger, each.client_reason) for each in result.evidence] == [("LEAVE_CLOSE", "the consumer is being closed")]
    assert result.counts.lines == 1


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    [part] = split_file(Source.CLIENT_LOG, "a", tmp_path / "a", tmp_path / "b")
    [result] = read_parts([part], zone=UTC, processes=1)
    assert (result.evidence, result.problems) == ([], [f"{tmp_path / 'a'}: No such file or directory"])


@given(st.binary(max_size=3000), st.integers(0, 3000), st.binary(max_size=4))
def test_any_gzip_is_read_or_refused(content: bytes, cut: int, tail: bytes) -> None:
    packed = (gzip.compress(content) + tail)[: max(1, cut)]
    read_so_far = b""
    with suppress(EOFError, zlib.error):
        for block in inflate(iter([packed])):
            read_so_far += block
    assert content.startswith(read_so_far)


@pytest.mark.parametrize("pad", [lambda data: data, lambda data: data + b"\0" * 5000])
def test_a_large_gzip_is_read_in_blocks(pad: Callable[[bytes], bytes]) -> None:
    content = b"x" * (3 * BLOCK_BYTES)
    packed = pad(gzip.compress(content))
    blocks = list(inflate(iter([packed[at : at + 1000] for at in range(0, len(packed), 1000)])))
    assert b"".join(blocks) == content
    assert max(map(len, blocks)) <= BLOCK_BYTES


# Log files as people have them: rotated, packed, cut, of another program, unreadable.

PREFIX = "[2026-11-22 14:31:07,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=12]"
SAMPLES = Path(__file__).parents[3] / "data" / "logs"


def lines(*generations: int) -> bytes:
    return b"".join(f"{PREFIX} Stabilized group g generation {each} with 2 members. (a.b.C)\n".encode() for each in generations)


def read_log_files(files: LogFiles) -> list[tuple[str, int | None]]:
    return [(Path(each.clock).name, each.generation) for each in files.evidence()]


def test_rotated_and_packed_files_are_one_log_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(lines(5))
    (tmp_path / "server.log.1").write_bytes(lines(4))
    (tmp_path / "server.log.2.gz").write_bytes(gzip.compress(lines(3)))
    (tmp_path / "server.log.10").write_bytes(lines(2))
    (tmp_path / "controller.log.2026-11-22-13").write_bytes(lines(8))
    (tmp_path / "controller.log.2026-11-22-12.gz").write_bytes(gzip.compress(lines(7)))
    (tmp_path / "controller.log").write_bytes(lines(9))
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "*"))
    files.add_broker_logs(str(tmp_path / "server.log"))
    found = read_log_files(files)
    assert [each for each in found if each[0] == "server.log"] == [("server.log", number) for number in (2, 3, 4, 5)]
    assert [each for each in found if each[0] == "controller.log"] == [("controller.log", number) for number in (7, 8, 9)]
    assert files.problems == []
    assert {Path(name).name: counts.lines for name, counts in files.counts.items()} == {"server.log": 4, "controller.log": 3}


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(gzip.compress(lines(1)) + gzip.compress(lines(2)) + b"\0" * 512)
    (tmp_path / "plain.gz").write_bytes(lines(3))
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "*"))
    assert sorted(read_log_files(files)) == [("plain", 3), ("server.log", 1), ("server.log", 2)]
    assert files.problems == []


def test_a_cut_gzip_gives_what_could_be_read(tmp_path: Path) -> None:
    noise = os.urandom(300_000).hex().encode() + b"\n"
    (tmp_path / "server.log.gz").write_bytes(gzip.compress(lines(1) + noise + lines(2))[:-100_000])
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "server.log.gz"))
    assert read_log_files(files) == [("server.log", 1)]
    assert files.problems == [f"{tmp_path / 'server.log.gz'}: the gzip file is cut: read up to there"]


def test_a_damaged_gzip_gives_what_could_be_read(tmp_path: Path) -> None:
    (tmp_path / "server.log.gz").write_bytes(gzip.compress(lines(1)) + b"\x1f\x8bgarbage")
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "server.log.gz"))
    assert read_log_files(files) == [("server.log", 1)]
    assert files.problems == [f"{tmp_path / 'server.log.gz'}: the gzip file is damaged: read up to there"]


def test_a_log_of_another_program_is_named_so(tmp_path: Path) -> None:
    (tmp_path / "nginx.log").write_bytes(b"GET / 200\n" * 12_000)
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "nginx.log"))
    assert read_log_files(files) == []
    assert [str(counts) for counts in files.counts.values()] == ["not a Kafka log: 0 of 12,000 lines were understood"]


def test_lines_of_ten_megabytes_are_counted(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(lines(1) + PREFIX.encode() + b"x" * 10_000_000 + b"\n" + lines(2))
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "server.log"))
    assert [generation for _, generation in read_log_files(files)] == [1, 2]
    [counts] = files.counts.values()
    assert (counts.lines, counts.skipped) == (3, {Skip.TOO_LONG: 1})


def test_the_bytes_read_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x\n" * BLOCK_BYTES)
    (tmp_path / "b.log").write_bytes(gzip.compress(b"x\n" * BLOCK_BYTES))
    seen: list[int] = []
    files = LogFiles(zone=UTC, progress=seen.append)
    files.add_client_logs(str(tmp_path / "*.log"))
    assert read_log_files(files) == []
    assert sum(seen) == files.size_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_a_pattern_without_files_and_a_directory_are_refused(tmp_path: Path) -> None:
    files = LogFiles(zone=UTC)
    with pytest.raises(SourceError, match=r"server\.log: no such file"):
        files.add_broker_logs(str(tmp_path / "server.log"))
    with pytest.raises(SourceError, match=r"is a directory: name its log files, e\.g\."):
        files.add_client_logs(str(tmp_path))


def test_a_file_that_went_away_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(lines(1))
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(path))
    path.unlink()
    assert (read_log_files(files), files.size_bytes) == ([], 0)
    assert files.problems == [f"{path}: No such file or directory"]


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_pipe_is_read_once_to_its_end_and_waited_for(
    tmp_path: Path, packed: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(log_parts, "SILENT_S", 0)
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(path))
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.extend(read_log_files(files)))
    reader.start()
    wait_until(lambda: caplog.messages == [f"{path}: waiting for a program that writes to this pipe"], "it says what it waits for")
    path.write_bytes(packed(lines(1, 2, 3)))
    reader.join()
    assert (files.problems, files.counts[str(path)].lines, len(found)) == ([], 3, 3)


def test_a_device_is_refused() -> None:
    with pytest.raises(SourceError, match=r"^/dev/zero is a device, which may have no end: name a file or a pipe$"):
        matching_files("/dev/zero")


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "server[1].log"
    path.write_bytes(lines(1))
    assert matching_files(str(path)) == [path]


def test_logs_of_clients_and_brokers_have_their_readers(tmp_path: Path) -> None:
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(SAMPLES / "apache-kafka-*.log"))
    for name in ("java", "kafka-python", "aiokafka", "librdkafka"):
        files.add_client_logs(str(SAMPLES / f"{name}*.log"))
    found: list[Evidence] = list(files.evidence())
    assert {each.source for each in found} == {Source.BROKER_LOG, Source.CLIENT_LOG}
    assert len(files.counts) == 5
    assert all(counts.understood for counts in files.counts.values())


def test_names_that_are_only_a_rotation_are_logs() -> None:
    paths = [Path("/var/log/2026-11-22"), Path("/var/log/.gz")]
    assert [log.paths for log in group_rotated(Source.BROKER_LOG, paths)] == [[paths[0]], [paths[1]]]
