"""Tests of the offsets topic in directories and archives as one source of evidence. Of clusters: tests/clients/test_watch.py."""

import json
from pathlib import Path

import pytest

from ottla.history.sources.archive import Manifest, write_manifest
from ottla.history.sources.evidence import Evidence, Kind, SourceError
from ottla.history.sources.offsets_topic import OffsetsTopic
from ottla.log.files import OsFiles
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from tests.support.kit.offsets_topic_records import Pair, classic_group, commit, member

RECORDS = [
    classic_group("g", 1, member("a", [0])),
    commit("g", 0, 5),
    classic_group("g", 2, member("a", [0]), member("b")),
    classic_group("h", 1, member("c", [0])),
]


def write(folder: Path, records: list[tuple[int, Pair]]) -> None:
    """A folder with one segment, a batch for each record."""
    folder.mkdir(parents=True)
    batches = [encode_batch([Record(offset, 1_000 + offset, *pair)], base_offset=offset) for offset, pair in records]
    (folder / f"{0:020d}.log").write_bytes(b"".join(map(bytes, batches)))


def kinds(found: list[Evidence]) -> list[tuple[Kind, str | None, int | None]]:
    return [(each.kind, each.group, each.generation) for each in found]


ALL = [(Kind.SYNC_COMPLETED, "g", 1), (Kind.COMMITS, "g", None), (Kind.SYNC_COMPLETED, "g", 2), (Kind.SYNC_COMPLETED, "h", 1)]


def test_a_data_directory_and_a_single_folder(tmp_path: Path) -> None:
    write(tmp_path / "data" / "__consumer_offsets-7", list(enumerate(RECORDS)))
    write(tmp_path / "data" / "other-0", [(0, RECORDS[0])])
    for path in (tmp_path / "data", tmp_path / "data" / "__consumer_offsets-7"):
        source = OffsetsTopic()
        source.add_directory(path)
        found = list(source.evidence())
        assert kinds(found) == ALL
        assert {each.clock for each in found} == {"__consumer_offsets-7"}
        assert (source.counts.records, source.problems) == (4, [])


def test_copies_of_several_brokers_are_one_log(tmp_path: Path) -> None:
    write(tmp_path / "1" / "__consumer_offsets-7", list(enumerate(RECORDS))[:3])
    write(tmp_path / "2" / "__consumer_offsets-7", list(enumerate(RECORDS))[1:])
    source = OffsetsTopic()
    for name in ("1", "2"):
        source.add_directory(tmp_path / name)
    assert kinds(list(source.evidence())) == ALL


def test_chosen_groups(tmp_path: Path) -> None:
    write(tmp_path / "__consumer_offsets-7", list(enumerate(RECORDS)))
    source = OffsetsTopic(groups=["h"])
    source.add_directory(tmp_path)
    assert {each.group for each in source.evidence()} == {"h"}


def test_a_copy_that_was_made_while_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "__consumer_offsets-7", list(enumerate(RECORDS)))
    (segment,) = (tmp_path / "__consumer_offsets-7").iterdir()
    segment.write_bytes(segment.read_bytes()[:-10])
    source = OffsetsTopic()
    source.add_directory(tmp_path)
    assert kinds(list(source.evidence())) == ALL[:-1]
    assert source.counts.torn_bytes > 0


@pytest.mark.parametrize(("name", "reason"), [("missing", "is not there"), ("file", "is no directory"), ("empty", "holds no")])
def test_what_is_no_such_directory(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    source = OffsetsTopic()
    with pytest.raises(SourceError, match=reason):
        source.add_directory(tmp_path / name)
    with pytest.raises(SourceError):
        source.add_archive(tmp_path / name)
    assert not (tmp_path / "missing").exists()


def test_an_archive_has_looks_at_the_admin_api_too(tmp_path: Path) -> None:
    write(tmp_path / "__consumer_offsets-7", list(enumerate(RECORDS)))
    write_manifest(OsFiles(tmp_path), Manifest(created_ms=0))
    (tmp_path / "snapshots").mkdir()
    fields = {"kind": "group", "at_ms": 1, "group": "p", "group_type": "classic", "state": "Empty", "protocol": ""}
    group = json.dumps(fields | {"epoch": None, "target_epoch": None, "members": []})
    recorded = group.replace('"p"', '"g"')  # a look at a group of which there are records
    lines = [group, recorded, '{"kind":"look","at_ms":2}', '{"kind":"note","text":"a gap"}', "damaged"]
    (tmp_path / "snapshots" / f"{0:020d}.jsonl").write_text("\n".join(lines) + "\ntorn")
    source = OffsetsTopic()
    source.add_archive(tmp_path)
    assert kinds(list(source.evidence())) == [*ALL, (Kind.OBSERVED, "p", None)]
    assert source.problems == ["a gap"]
    assert (source.counts.unreadable_records, source.counts.torn_bytes) == (1, 4)
