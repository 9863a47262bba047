"""The disk that fails on purpose: what it must keep it keeps, and what it may lose it does lose, for some seed."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ottla.log.file_system import Files, MemoryFiles
from ottla.log.files import OsFiles
from ottla.protocol.errors import StorageError
from tests.support.kit.faulty_files import FaultyFiles, overwrite

SEEDS = range(60)


@pytest.fixture(params=["memory", "disk"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], FaultyFiles]:
    def made(seed: int) -> FaultyFiles:
        inner: Files = MemoryFiles() if request.param == "memory" else OsFiles(tmp_path / str(seed))
        inner.make_directory("t-0")
        return FaultyFiles(inner, Random(seed))

    return made


def after_crashes(make: Callable[[int], FaultyFiles], act: Callable[[FaultyFiles], object], path: str) -> set[bytes | None]:
    """Everything that `path` may hold after `act` and a crash (None: it is not there)."""
    results: set[bytes | None] = set()
    for seed in SEEDS:
        files = make(seed)
        act(files)
        files.crash()
        results.add(files.read_all(path) if files.exists(path) else None)
    return results


def test_without_faults_it_is_the_files_it_wraps(make: Callable[[int], FaultyFiles]) -> None:
    files = make(0)
    file = files.open("t-0/a")
    assert file.append(b"one", b"two") == 0
    file.truncate(5)
    assert (file.size, file.read(0, 10), files.size("t-0/a")) == (5, b"onetw", 5)
    file.sync()
    file.close()
    files.rename("t-0/a", "t-0/b")
    files.replace("t-0/c", b"c")
    files.make_directory("u-0")
    files.remove_directory("u-0")
    assert (files.list("t-0"), files.list(""), files.exists("t-0/a")) == (["b", "c"], ["t-0"], False)
    files.remove("t-0/b")
    assert files.read_all("t-0/c") == b"c"


def test_synced_bytes_under_a_synced_name_stay(make: Callable[[int], FaultyFiles]) -> None:
    def act(files: FaultyFiles) -> None:
        file = files.open("t-0/a")
        file.append(b"kept")
        file.sync()
        files.sync_directory("t-0")

    assert after_crashes(make, act, "t-0/a") == {b"kept"}


def test_unsynced_bytes_may_be_lost_torn_or_zeros(make: Callable[[int], FaultyFiles]) -> None:
    def act(files: FaultyFiles) -> None:
        file = files.open("t-0/a")
        file.append(b"kept")
        file.sync()
        files.sync_directory("t-0")
        file.append(b"lost")

    results = after_crashes(make, act, "t-0/a")
    assert {b"kept", b"keptl", b"keptlost"} <= results
    assert any(result is not None and b"\0" in result for result in results)
    assert all(result is not None and result.startswith(b"kept") and len(result) <= 8 for result in results)


def test_a_name_that_was_not_synced_may_be_lost(make: Callable[[int], FaultyFiles]) -> None:
    def act(files: FaultyFiles) -> None:
        file = files.open("t-0/a")
        file.append(b"kept")
        file.sync()

    assert after_crashes(make, act, "t-0/a") == {b"kept", None}


def test_a_removed_name_may_come_back(make: Callable[[int], FaultyFiles]) -> None:
    def act(files: FaultyFiles) -> None:
        files.replace("t-0/a", b"back")
        files.remove("t-0/a")

    assert after_crashes(make, act, "t-0/a") == {b"back", None}
    assert after_crashes(make, lambda files: (act(files), files.sync_directory("t-0")), "t-0/a") == {None}


def test_a_new_directory_may_be_lost(make: Callable[[int], FaultyFiles]) -> None:
    assert after_crashes(make, lambda files: (files.make_directory("u-0"), files.replace("u-0/a", b"1")), "u-0/a") == {b"1", None}


def test_a_synced_replacement_is_whole_and_an_unsynced_one_may_be_anything(make: Callable[[int], FaultyFiles]) -> None:
    assert after_crashes(make, lambda files: files.replace("t-0/a", b"new"), "t-0/a") == {b"new"}
    results = after_crashes(make, lambda files: (files.replace("t-0/a", b"old"), files.replace("t-0/a", b"new", sync=False)), "t-0/a")
    assert {b"old", b"new", b""} <= results


def test_a_cut_that_was_not_synced_may_be_undone(make: Callable[[int], FaultyFiles]) -> None:
    results = after_crashes(make, lambda files: (files.replace("t-0/a", b"abcd"), files.open("t-0/a").truncate(1)), "t-0/a")
    assert results == {b"abcd", b"a"}


def test_a_renamed_file_keeps_its_bytes(make: Callable[[int], FaultyFiles]) -> None:
    def act(files: FaultyFiles) -> None:
        files.replace("t-0/a", b"abcd")
        files.rename("t-0/a", "t-0/b")

    assert after_crashes(make, act, "t-0/b") == {b"abcd", None}
    assert after_crashes(make, act, "t-0/a") == {b"abcd", None}


def test_a_renamed_file_has_one_of_its_names_and_each_rename_survives_for_itself(make: Callable[[int], FaultyFiles]) -> None:
    seen = set()
    for seed in SEEDS:
        files = make(seed)
        files.replace("t-0/a", b"old")
        files.replace("t-0/b", b"new")
        files.rename("t-0/a", "t-0/c")
        files.rename("t-0/b", "t-0/a")
        files.crash()
        seen.add(tuple((name, files.read_all(f"t-0/{name}")) for name in files.list("t-0")))
    assert seen == {
        (("a", b"old"), ("b", b"new")),
        (("b", b"new"), ("c", b"old")),
        (("a", b"new"),),
        (("a", b"new"), ("c", b"old")),
    }


def test_handles_die_with_the_crash(make: Callable[[int], FaultyFiles]) -> None:
    files = make(0)
    file = files.open("t-0/a")
    files.crash()
    for use in (lambda: file.append(b"x"), lambda: file.read(0, 1), file.sync, lambda: file.truncate(0)):
        with pytest.raises(StorageError, match="before the crash"):
            use()
    assert files.crashes == 1


def test_a_failed_write_leaves_bytes_behind_the_counted_end(make: Callable[[int], FaultyFiles]) -> None:
    files = make(0)
    file = files.open("t-0/a")
    file.append(b"one")
    files.fail_next_write(after_bytes=2)
    with pytest.raises(StorageError, match="cannot write to t-0/a: injected"):
        file.append(b"two")
    assert (file.size, files.read_all("t-0/a")) == (3, b"onetw")
    file.append(b"2")
    assert (file.size, files.read_all("t-0/a")) == (4, b"one2")
    files.fail_next_write(after_bytes=2)
    with pytest.raises(StorageError):
        file.append(b"two")
    file.truncate(4)
    file.append(b"3")
    assert files.read_all("t-0/a") == b"one23"
    files.fail_next_write(after_bytes=0)
    with pytest.raises(StorageError):
        files.replace("t-0/b", b"b")
    assert not files.exists("t-0/b")


def test_a_failed_sync_makes_nothing_durable(make: Callable[[int], FaultyFiles]) -> None:
    def act(files: FaultyFiles) -> None:
        files.replace("t-0/a", b"")
        files.open("t-0/a").append(b"x")
        files.fail_next_sync()
        with pytest.raises(StorageError, match="cannot sync"):
            files.open("t-0/a").sync()

    assert after_crashes(make, act, "t-0/a") == {b"", b"x", b"\0"}


def test_truncation_can_be_refused(make: Callable[[int], FaultyFiles]) -> None:
    files = make(0)
    files.truncate_fails = True
    with pytest.raises(StorageError, match="cannot shorten"):
        files.open("t-0/a").truncate(0)


def test_one_bit_flips_for_good(make: Callable[[int], FaultyFiles]) -> None:
    files = make(5)
    files.replace("t-0/a", bytes(20))
    files.flip_bit("t-0/a")
    files.crash()
    assert sum(byte.bit_count() for byte in files.read_all("t-0/a")) == 1


def test_a_seed_is_a_run(make: Callable[[int], FaultyFiles]) -> None:
    def run(seed: int) -> bytes:
        files = FaultyFiles(MemoryFiles(), Random(seed))
        files.make_directory("t-0")
        files.sync_directory("")
        files.replace("t-0/a", b"")
        files.open("t-0/a").append(bytes(range(256)))
        files.crash()
        return files.read_all("t-0/a")

    assert [run(seed) for seed in SEEDS] == [run(seed) for seed in SEEDS]
    assert len({run(seed) for seed in SEEDS}) > 20


def test_bytes_are_overwritten_under_an_open_handle() -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    file = files.open("t-0/a")
    file.append(b"abcdef")
    overwrite(files, "t-0/a", 2, b"XY")
    assert (file.size, file.read(0, 10)) == (6, b"abXYef")
    with pytest.raises(AssertionError, match="only bytes that exist"):
        overwrite(files, "t-0/a", 5, b"XY")
