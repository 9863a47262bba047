"""The lag that an archive's looks show: the committed offset and the end of the log of each partition that differs."""

import json
from pathlib import Path
from typing import Any

from ottla.history.lag import lag_of_archives
from ottla.protocol.model import TopicPartition


def _archive(directory: Path, *lines: dict[str, Any] | bytes) -> Path:
    (directory / "snapshots").mkdir(parents=True)
    text = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    (directory / "snapshots" / "00000000000000000000.jsonl").write_bytes(text)
    return directory


def _offsets(at_ms: int, *offsets: list[Any], group: str = "orders") -> dict[str, Any]:
    return {"kind": "offsets", "at_ms": at_ms, "group": group, "offsets": list(offsets)}


def test_looks_show_the_lag_of_each_partition_until_the_next(tmp_path: Path) -> None:
    archive = _archive(
        tmp_path / "watched",
        {"kind": "look", "at_ms": 1_000, "groups": 2},
        _offsets(1_000, ["t", 0, 5, 8], ["t", 1, None, 7]),
        _offsets(2_000, ["t", 0, 8, 8], group="billing"),
        _offsets(3_000, ["t", 0, 9, 109], ["t", 1, 7, 7]),
    )
    found = lag_of_archives([archive])
    assert set(found) == {"orders", "billing"}
    lag = found["orders"]
    assert (lag.from_ms, lag.step_ms) == (1_000, 250)
    assert list(lag.rows[TopicPartition("t", 0)]) == [3] * 8 + [100]
    assert list(lag.rows[TopicPartition("t", 1)]) == [-1] * 8 + [0]


def test_lines_that_are_damaged_and_directories_without_looks_have_none(tmp_path: Path) -> None:
    damaged = _archive(
        tmp_path / "watched", b'{"kind":"offsets"', b'{"kind":"offsets","at_ms":1,"group":"g","offsets":[["t"]]}', b'"offsets"'
    )
    assert lag_of_archives([damaged, tmp_path / "absent"]) == {}
