"""Log files as people have them: rotated, packed, cut, of another program, unreadable."""

import gzip
import os
from datetime import UTC
from pathlib import Path

import pytest

from ottla.cli.diagnose.log_files import LogFiles, group_rotated, matching_files
from ottla.cli.diagnose.log_parts import BLOCK_BYTES
from ottla.cli.diagnose.offsets_topic import SourceError
from ottla.core.diagnosis.evidence.log_counts import Skip
from ottla.core.diagnosis.evidence.model import Evidence, Source

PREFIX = "[2026-11-22 14:31:07,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=12]"
SAMPLES = Path(__file__).parents[3] / "data" / "logs"


def lines(*generations: int) -> bytes:
    return b"".join(f"{PREFIX} Stabilized group g generation {each} with 2 members. (a.b.C)\n".encode() for each in generations)


def read(files: LogFiles) -> list[tuple[str, int | None]]:
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
    found = read(files)
    assert [each for each in found if each[0] == "server.log"] == [("server.log", number) for number in (2, 3, 4, 5)]
    assert [each for each in found if each[0] == "controller.log"] == [("controller.log", number) for number in (7, 8, 9)]
    assert files.problems == []
    assert {Path(name).name: counts.lines for name, counts in files.counts.items()} == {"server.log": 4, "controller.log": 3}


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(gzip.compress(lines(1)) + gzip.compress(lines(2)) + b"\0" * 512)
    (tmp_path / "plain.gz").write_bytes(lines(3))
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "*"))
    assert sorted(read(files)) == [("plain", 3), ("server.log", 1), ("server.log", 2)]
    assert files.problems == []


def test_a_cut_gzip_gives_what_could_be_read(tmp_path: Path) -> None:
    noise = os.urandom(300_000).hex().encode() + b"\n"
    (tmp_path / "server.log.gz").write_bytes(gzip.compress(lines(1) + noise + lines(2))[:-100_000])
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "server.log.gz"))
    assert read(files) == [("server.log", 1)]
    assert files.problems == [f"{tmp_path / 'server.log.gz'}: the gzip file is cut: read up to there"]


def test_a_damaged_gzip_gives_what_could_be_read(tmp_path: Path) -> None:
    (tmp_path / "server.log.gz").write_bytes(gzip.compress(lines(1)) + b"\x1f\x8bgarbage")
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "server.log.gz"))
    assert read(files) == [("server.log", 1)]
    assert files.problems == [f"{tmp_path / 'server.log.gz'}: the gzip file is damaged: read up to there"]


def test_a_log_of_another_program_is_named_so(tmp_path: Path) -> None:
    (tmp_path / "nginx.log").write_bytes(b"GET / 200\n" * 12_000)
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "nginx.log"))
    assert read(files) == []
    assert [str(counts) for counts in files.counts.values()] == ["not a Kafka log: 0 of 12,000 lines were understood"]


def test_lines_of_ten_megabytes_are_counted(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(lines(1) + PREFIX.encode() + b"x" * 10_000_000 + b"\n" + lines(2))
    files = LogFiles(zone=UTC)
    files.add_broker_logs(str(tmp_path / "server.log"))
    assert [generation for _, generation in read(files)] == [1, 2]
    [counts] = files.counts.values()
    assert (counts.lines, counts.skipped) == (3, {Skip.TOO_LONG: 1})


def test_the_bytes_read_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x\n" * BLOCK_BYTES)
    (tmp_path / "b.log").write_bytes(gzip.compress(b"x\n" * BLOCK_BYTES))
    seen: list[int] = []
    files = LogFiles(zone=UTC, progress=seen.append)
    files.add_client_logs(str(tmp_path / "*.log"))
    assert read(files) == []
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
    assert (read(files), files.size_bytes) == ([], 0)
    assert files.problems == [f"{path}: No such file or directory"]


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
