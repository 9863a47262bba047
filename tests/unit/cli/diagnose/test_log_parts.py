"""Parts of a file have each of its lines once, and give together what the whole gives, in one process or in two."""

import gzip
import io
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.diagnose import log_parts
from ottla.cli.diagnose.log_parts import BLOCK_BYTES, inflate, lines_between, read_parts, split_file
from ottla.core.diagnosis.evidence.log_counts import LogCounts
from ottla.core.diagnosis.evidence.model import Evidence, Source

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
