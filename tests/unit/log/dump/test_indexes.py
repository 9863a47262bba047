"""Index entries beside their log: sound ones are listed, wrong ones are reported."""

from collections.abc import Callable
from struct import pack

import pytest

from ottla.storage.dump.items import Entry, FindingItem, Item, Note
from ottla.storage.memory_files import MemoryFiles

NAME = "00000000000000000100"
INDEX, TIMES, LOG = NAME + ".index", NAME + ".timeindex", NAME + ".log"
Dumped = Callable[..., list[Item]]
Rewrite = Callable[[str, Callable[[bytearray], object]], None]
Faults = Callable[[list[Item]], list[str]]


def test_sound_entries_of_the_offset_index(dumped: Dumped) -> None:
    items = dumped(INDEX)
    assert [item.values["offset"] for item in items if isinstance(item, Entry)] == [102, 105, 108, 111, 114]
    assert len(items) == 5


def test_sound_entries_of_the_time_index(dumped: Dumped) -> None:
    items = dumped(TIMES)
    assert items[:2] == [Entry({"timestamp": 1002, "offset": 102}), Entry({"timestamp": 1012, "offset": 105})]
    assert len(items) == 5


@pytest.mark.parametrize(("name", "entry_bytes"), [(INDEX, 8), (TIMES, 12)])
def test_kafkas_zeros_behind_the_last_entry_are_no_entries(
    dumped: Dumped, rewrite: Rewrite, files: MemoryFiles, name: str, entry_bytes: int
) -> None:
    sound = dumped(name)
    rewrite(name, lambda data: data.extend(bytes(entry_bytes * 1000)))
    assert dumped(name) == sound
    files.replace(f"t-0/{name}", bytes(entry_bytes * 1000))
    assert dumped(name) == ([Note(f"{name} is empty.")] if name == INDEX else [])


def test_entries_behind_zeros_are_a_fault(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(INDEX, lambda data: data.extend(bytes(8 * 300_000) + pack(">ii", 1, 1)))
    assert faults(dumped(INDEX)) == ["entries follow zeros at position 40"]


@pytest.mark.parametrize(("name", "entry_bytes"), [(INDEX, 8), (TIMES, 12)])
def test_a_torn_index_lists_what_is_whole(dumped: Dumped, rewrite: Rewrite, faults: Faults, name: str, entry_bytes: int) -> None:
    rewrite(name, lambda data: data.__delitem__(slice(-1, None)))
    items = dumped(name)
    assert sum(isinstance(item, Entry) for item in items) == 4
    assert faults(items) == [f"its {5 * entry_bytes - 1} bytes are no multiple of {entry_bytes}"]


def test_an_entry_that_the_log_does_not_bear_out(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(INDEX, lambda data: data.__setitem__(slice(8, 12), pack(">i", 6)))
    items = dumped(INDEX)
    assert FindingItem(f"Mismatches in :{INDEX}", "  Index offset: 106, log offset: 105") in items
    rewrite(INDEX, lambda data: data.__setitem__(slice(36, 40), pack(">i", 1 << 30)))
    assert f"Index offset: 114, no batch lies at position {1 << 30} of the log" in faults(dumped(INDEX))
    rewrite(INDEX, lambda data: data.__setitem__(slice(36, 40), pack(">i", -5)))
    assert "Index offset: 114, no batch lies at position -5 of the log" in faults(dumped(INDEX))


def test_entries_that_do_not_rise(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(INDEX, lambda data: data.extend(data[:8]))
    assert faults(dumped(INDEX))[0].startswith("offset 102 at position 0 follows offset 114")
    rewrite(TIMES, lambda data: data.extend(data[:12]))
    assert faults(dumped(TIMES)) == ["Index timestamp: 1002, Previously indexed timestamp: 1042", "offset 102 follows offset 114"]


def test_a_wrong_timestamp_and_an_offset_that_ends_no_batch(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(TIMES, lambda data: data.__setitem__(slice(12, 24), pack(">qi", 1013, 5)))
    assert faults(dumped(TIMES)) == ["Index timestamp: 1013, log timestamp: 1012"]
    rewrite(TIMES, lambda data: data.__setitem__(slice(12, 24), pack(">qi", 1012, 4)))
    assert faults(dumped(TIMES)) == ["Indexed offset: 104, found log offset: 105"]
    rewrite(TIMES, lambda data: data.extend(pack(">qi", 2000, 50)))
    assert faults(dumped(TIMES))[-1] == "Indexed offset: 150, found log offset: -1"


def test_only_what_is_wrong(dumped: Dumped, rewrite: Rewrite) -> None:
    assert dumped(INDEX, with_entries=False) == dumped(TIMES, with_entries=False) == []
    rewrite(INDEX, lambda data: data.__setitem__(slice(8, 12), pack(">i", 6)))
    assert len(dumped(INDEX, with_entries=False)) == 1


def test_the_sanity_check_needs_no_log_and_says_so_when_all_is_well(files: MemoryFiles, dumped: Dumped, rewrite: Rewrite) -> None:
    files.remove(f"t-0/{LOG}")
    assert dumped(INDEX, is_sanity_check=True) == [Note(f"{INDEX} passed sanity check.")]
    assert dumped(TIMES, is_sanity_check=True) == [Note(f"{TIMES} passed sanity check.")]
    rewrite(INDEX, lambda data: data.extend(data[:8]))
    (finding,) = dumped(INDEX, is_sanity_check=True)
    assert isinstance(finding, FindingItem)


def test_without_its_log_an_index_is_listed_and_the_log_is_missed(files: MemoryFiles, dumped: Dumped, faults: Faults) -> None:
    files.remove(f"t-0/{LOG}")
    items = dumped(INDEX)
    assert faults(items) == [f"there is no {LOG} beside it"]
    assert sum(isinstance(item, Entry) for item in items) == 5


def test_a_batch_larger_than_allowed(dumped: Dumped, faults: Faults) -> None:
    assert len(faults(dumped(INDEX, batch_bytes_max=70))) == 5
    assert not faults(dumped(INDEX, batch_bytes_max=100_000))
