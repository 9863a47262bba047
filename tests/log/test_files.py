"""Files on the disk and in memory behave the same; the disk's refusals become sentences."""

import errno
import os
from pathlib import Path
from uuid import UUID

import pytest

from ottla.log.checkpoints import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    EpochStart,
    decode_leader_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_leader_epochs,
    encode_offsets,
    encode_partition_metadata,
    file_name,
    offset_of,
    offsets_of,
)
from ottla.log.file_system import Files, MemoryFiles, storage_error
from ottla.log.files import OsFiles, pipe
from ottla.protocol.errors import ErrorCode, NotAccessible, StorageError
from ottla.protocol.model import TopicPartition

CHUNK = 256 * 1024


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made: Files = OsFiles(tmp_path / "data") if request.param == "disk" else MemoryFiles()
    made.make_directory("t-0")
    return made


def test_append_and_read_ranges(files: Files) -> None:
    file = files.open("t-0/a.log")
    assert file.append(b"") == 0
    assert file.append(b"one") == 0
    assert file.append(memoryview(b"two"), bytearray(b"three")) == 3
    assert file.size == files.size("t-0/a.log") == 11
    assert file.read(2, 5) == b"etwot"
    assert file.read(9, 100) == b"ee"
    assert file.read(11, 5) == file.read(50, 5) == b""


def test_large_pieces_cross_the_chunks(files: Files) -> None:
    file = files.open("t-0/a.log")
    data = os.urandom(3 * CHUNK + 17)
    file.append(data[:5])
    file.append(data[5 : CHUNK + 9])
    file.append(data[CHUNK + 9 :])
    assert file.read(0, file.size) == data
    assert file.read(CHUNK - 1, 2) == data[CHUNK - 1 : CHUNK + 1]
    assert file.read(CHUNK, CHUNK) == data[CHUNK : 2 * CHUNK]
    file.truncate(2 * CHUNK)
    assert file.size == 2 * CHUNK
    file.append(b"end")
    assert file.read(2 * CHUNK - 1, 10) == data[2 * CHUNK - 1 : 2 * CHUNK] + b"end"


def test_truncate_shortens_and_lengthens_with_zeros(files: Files) -> None:
    file = files.open("t-0/a.log")
    file.append(b"abcdef")
    file.truncate(2)
    file.truncate(4)
    assert file.read(0, 10) == b"ab\0\0"
    file.truncate(0)
    file.append(b"z")
    assert files.read_all("t-0/a.log") == b"z"


def test_a_closed_file_opens_again_by_itself(files: Files) -> None:
    file = files.open("t-0/a.log")
    file.append(b"one")
    file.close()
    file.close()
    file.append(b"two")
    file.sync()
    assert file.read(0, 10) == files.open("t-0/a.log").read(0, 10) == b"onetwo"


def test_names(files: Files) -> None:
    files.open("t-0/b").append(b"b")
    files.open("t-0/a").close()
    files.replace("root.txt", b"1")
    assert files.list("t-0") == ["a", "b"]
    assert files.list("") == ["root.txt", "t-0"]
    assert files.list("none-0") == []
    files.rename("t-0/b", "t-0/c")
    files.remove("t-0/a")
    assert files.list("t-0") == ["c"]
    assert (files.exists("t-0"), files.exists("t-0/c"), files.exists("t-0/b"), files.exists("none-0/c")) == (True, True, False, False)
    files.make_directory("t-0")
    assert files.list("t-0") == ["c"]
    files.remove_directory("t-0")
    assert not files.exists("t-0")
    assert not files.exists("t-0/c")


def test_replace_changes_the_whole_file(files: Files) -> None:
    for sync, data in ((True, b"one, long"), (False, b"two")):
        files.replace("t-0/x", data, sync=sync)
        assert files.read_all("t-0/x") == data
    assert files.list("t-0") == ["x"]


def test_sync_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, synced = OsFiles(tmp_path), []
    files.make_directory("t-0")
    files.open("t-0/a").append(b"1")
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.path.realpath(f"/proc/self/fd/{descriptor}")))
    files.sync("t-0/a")
    files.sync_directory("t-0")
    files.sync_directory("")
    assert synced == [os.path.realpath(tmp_path / name) for name in ("t-0/a", "t-0", "")]


def test_what_is_not_there_is_a_storage_error(files: Files) -> None:
    attempts = [
        lambda: files.open("none-0/a"),
        lambda: files.read_all("t-0/none"),
        lambda: files.size("t-0/none"),
        lambda: files.remove("t-0/none"),
        lambda: files.rename("t-0/none", "t-0/a"),
        lambda: files.replace("none-0/a", b""),
        lambda: files.sync("t-0/none"),
        lambda: files.remove_directory("none-0"),
    ]
    for attempt in attempts:
        with pytest.raises(StorageError, match="it is not there any more"):
            attempt()


def test_memory_files_survive_the_log_that_wrote_them() -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    files.open("t-0/a").append(b"kept")
    assert files.open("t-0/a").read(0, 10) == b"kept"


def test_the_disk_holds_what_was_written(tmp_path: Path) -> None:
    files = OsFiles(tmp_path / "deep" / "data")
    files.make_directory("t-0")
    files.open("t-0/a").append(b"bytes")
    assert (tmp_path / "deep" / "data" / "t-0" / "a").read_bytes() == b"bytes"


@pytest.mark.parametrize("count", [1, 2])
def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    files = OsFiles(tmp_path)
    file = files.open("a")
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: pwrite(fd, b"".join(buffers)[:3], at))
    file.append(*[b"0123456789"] * count)
    assert files.read_all("a") == b"0123456789" * count
    assert file.size == 10 * count


def test_a_full_disk_says_so_and_counts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles(tmp_path).open("a")
    file.append(b"12")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="cannot write to a: the disk is full; free some space") as raised:
        file.append(b"34")
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert file.size == 2


def test_descriptors_are_given_back_when_many_files_are_open(tmp_path: Path) -> None:
    files = OsFiles(tmp_path, open_files_max=3)
    opened = [files.open(f"f{number}") for number in range(10)]
    for number in range(2):
        for number, file in enumerate(opened):
            file.append(b"%d" % number)
            assert len(files.opened) <= 3, number
    for number, file in enumerate(opened):
        assert file.read(0, 10) == b"%d%d" % (number, number)
        file.close()
    assert not files.opened


def test_two_brokers_do_not_share_a_directory(tmp_path: Path) -> None:
    first, second = OsFiles(tmp_path), OsFiles(tmp_path)
    first.lock()
    for _ in range(2):
        with pytest.raises(StorageError, match="used by another broker"):
            second.lock()
        (tmp_path / ".lock").unlink()  # a name that goes takes no lock with it
    first.unlock()
    second.lock()
    second.unlock()


def test_a_range_of_another_ones_file_is_only_read(files: OsFiles | MemoryFiles) -> None:
    files.open("t-0/a.log").append(b"abcdef")
    if isinstance(files, OsFiles):
        Path(files.absolute("t-0/a.log")).chmod(0o400)
    assert files.read_range("t-0/a.log", 2, 3) == b"cde"
    assert files.read_range("t-0/a.log", 5, 10) == b"f"
    with pytest.raises(StorageError):
        files.read_range("t-0/b.log", 0, 1)
    assert files.list("t-0") == ["a.log"]


def test_the_volume_is_the_disk_under_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, total_bytes, usable_bytes = OsFiles("data").volume()
    assert path == str(tmp_path / "data")
    assert 0 < usable_bytes <= total_bytes


def test_a_root_that_is_gone_has_no_volume(tmp_path: Path) -> None:
    files = OsFiles(tmp_path / "data")
    (tmp_path / "data").rmdir()
    with pytest.raises(StorageError, match="cannot look at"):
        files.volume()


def test_a_thread_makes_room_when_others_took_all_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OsFiles(tmp_path)
    first = files.open("first")
    first.append(b"1")
    open_really = os.open

    def full(*arguments) -> int:
        if files.opened:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_really(*arguments)

    monkeypatch.setattr(os, "open", full)
    second = files.open("second")
    second.append(b"2")
    assert first.read(0, 1) == b"1"
    assert second.read(0, 1) == b"2"
    monkeypatch.setattr(os, "open", lambda *_: full() if files.opened else (_ for _ in ()).throw(OSError(errno.EMFILE, "Too many")))
    with pytest.raises(StorageError, match="ulimit -n"):
        files.open("third")


def test_a_file_is_known_by_its_identity_whatever_its_bytes(files: Files) -> None:
    file = files.open("t-0/a.log")
    first = files.identity("t-0/a.log")
    file.append(b"x")
    assert first is not None
    assert files.identity("t-0/a.log") == first
    files.replace("t-0/b.log", b"x")
    files.rename("t-0/b.log", "t-0/a.log")
    assert files.identity("t-0/a.log") not in (None, first)
    assert files.identity("t-0/no.log") is None
    assert files.identity("nowhere/a.log") is None


def test_the_names_in_the_root_have_a_state(files: Files) -> None:
    state = files.names_state("")
    files.open("t-0/a.log").append(b"x")
    assert files.names_state("") == state
    files.make_directory("u-0")
    assert files.names_state("") != state
    files.check_root()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_nothing_is_made_in_a_root_that_is_gone(tmp_path: Path, is_made_again: bool) -> None:
    files = OsFiles(tmp_path / "data")
    (tmp_path / "data").rename(tmp_path / "moved")
    if is_made_again:
        (tmp_path / "data").mkdir()
    for _ in range(2):
        with pytest.raises(StorageError, match="data is gone: another program deleted or moved it"):
            files.check_root()
    with pytest.raises(StorageError, match="is gone"):
        files.make_directory("t-0")
    with pytest.raises(StorageError, match="is gone"):
        files.replace("checkpoint", b"x")
    assert (tmp_path / "data").exists() is is_made_again
    assert not is_made_again or list((tmp_path / "data").iterdir()) == []


def test_a_pipe_ends_when_its_writer_does() -> None:
    reader, writer = pipe(lambda path: open(path, "wb", buffering=0))  # noqa: SIM115
    with reader:
        with writer:
            writer.write(b"abc")
        assert (reader.read(10), reader.read(10)) == (b"abc", b"")


def test_a_pipe_whose_writer_cannot_be_opened_leaves_no_descriptor() -> None:
    def refuse(_path: str) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    before = set(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match="too many"):
        pipe(refuse)
    assert set(os.listdir("/dev/fd")) == before


def test_every_refusal_has_a_sentence() -> None:
    assert "read-only" in str(storage_error("open", "a", OSError(errno.EROFS, "")))
    assert str(storage_error("open", "a", OSError(errno.ELOOP, "too many links"))) == "cannot open a: too many links"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_an_error_of_their_own(number: int) -> None:
    assert isinstance(storage_error("open", "a", OSError(number, "")), NotAccessible)
    assert not isinstance(storage_error("open", "a", OSError(errno.EIO, "")), NotAccessible)


CHUNK_BYTES = 256 * 1024


def test_a_file_in_chunks_reads_as_one() -> None:
    files = MemoryFiles()
    file = files.open("f")
    whole = b""
    for size in (CHUNK_BYTES - 1, 3, CHUNK_BYTES, 2 * CHUNK_BYTES + 7, 0, 1):
        part = bytes(number % 251 for number in range(size))
        assert file.append(part[: size // 2], part[size // 2 :]) == len(whole)
        whole += part
    assert (file.size, file.read(0, 10**9)) == (len(whole), whole)
    for position in (0, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1, len(whole)):
        assert file.read(position, CHUNK_BYTES + 5) == whole[position : position + CHUNK_BYTES + 5]
    file.truncate(CHUNK_BYTES + 1)
    assert files.read_all("f") == whole[: CHUNK_BYTES + 1]


def test_a_directory_gets_another_name_with_all_that_is_in_it() -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    files.open("t-0/a").append(b"x")
    files.rename_directory("t-0", "t-0.gone-delete")
    assert (files.list(""), files.read_all("t-0.gone-delete/a")) == (["t-0.gone-delete"], b"x")
    with pytest.raises(StorageError, match="not there any more"):
        files.rename_directory("t-0", "u-0")


def test_what_is_not_there_is_reported_with_advice() -> None:
    with pytest.raises(StorageError, match="cannot read t-0/a"):
        MemoryFiles().read_all("t-0/a")


def test_a_name_and_its_offset() -> None:
    assert file_name(7, LOG_SUFFIX) == "00000000000000000007.log"
    assert offset_of("00000000000000000007.log.swap") == 7
    for name in ("7.log", "0000000000000000000x.log", "0000000000000000000٧.log", ""):
        assert offset_of(name) is None


def test_the_offsets_of_one_kind_of_files() -> None:
    names = [file_name(5, LOG_SUFFIX), file_name(3, LOG_SUFFIX), file_name(9, INDEX_SUFFIX), file_name(4, ".log.deleted"), "x.log"]
    assert offsets_of([*names, "00000000000000000001x.log"], LOG_SUFFIX) == [3, 5]


# As found in a directory of Apache Kafka 4.3.0.
KAFKAS_EPOCHS = b"0\n2\n0 0\n2 41446\n"
KAFKAS_METADATA = b"version: 0\ntopic_id: 417SNXpqRBypTcREB5yO8w"


def test_leader_epochs_are_kafkas_bytes() -> None:
    epochs = [EpochStart(0, 0), EpochStart(2, 41446)]
    assert encode_leader_epochs(epochs) == KAFKAS_EPOCHS
    assert decode_leader_epochs(KAFKAS_EPOCHS) == epochs
    assert decode_leader_epochs(encode_leader_epochs([])) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\0", b"0", b"0\n1\n", b"1\n0\n", b"0\n1\n0 0\n1 5\n", b"0\n1\n0\n", b"0\n1\n0 0 0\n", b"0\n1\nx 0\n", b"\xff\n0\n",
     b"0\n2\n1 0\n0 5\n", b"0\n2\n0 9\n1 5\n"],
)  # fmt: skip
def test_a_damaged_checkpoint_is_none(data: bytes) -> None:
    assert decode_leader_epochs(data) is None


def test_partition_metadata_is_kafkas_bytes() -> None:
    topic_id = UUID("e35ed235-7a6a-441c-a94d-c444079c8ef3")
    assert encode_partition_metadata(topic_id) == KAFKAS_METADATA
    assert decode_partition_metadata(KAFKAS_METADATA) == decode_partition_metadata(KAFKAS_METADATA + b"\n") == topic_id
    for damaged in (b"", KAFKAS_METADATA[:-1], KAFKAS_METADATA[1:], KAFKAS_METADATA + b"x", KAFKAS_METADATA[:-1] + b"\xff"):
        assert decode_partition_metadata(damaged) is None


def test_the_offsets_of_a_directory_survive_the_way_to_text_and_back() -> None:
    offsets = {TopicPartition("flights", 0): 7, TopicPartition("a.b-c_d", 12): 2**62}
    text = encode_offsets(offsets)
    assert text == b"0\n2\nflights 0 7\na.b-c_d 12 4611686018427387904\n"
    assert decode_offsets(text) == offsets
    assert encode_offsets({}) == b"0\n0\n"
    assert decode_offsets(b"0\n0\n") == {}
    assert decode_offsets(b"") == {}, "as Kafka makes the file"


@pytest.mark.parametrize(
    "text", [b"\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 -1\n", b"0\n2\na 0 1\na 0 1\n", b"0\n1\na x 1\n", b"\xff"]
)
def test_a_damaged_directory_checkpoint_is_not_believed(text: bytes) -> None:
    assert decode_offsets(text) is None
