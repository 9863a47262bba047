"""Names of a log's files: twenty digits and a suffix, and nothing else is one."""

from ottla.storage.log.file_names import INDEX_SUFFIX, LOG_SUFFIX, file_name, offset_of, offsets_of


def test_a_name_and_its_offset() -> None:
    assert file_name(7, LOG_SUFFIX) == "00000000000000000007.log"
    assert offset_of("00000000000000000007.log.swap") == 7
    for name in ("7.log", "0000000000000000000x.log", "0000000000000000000٧.log", ""):
        assert offset_of(name) is None


def test_the_offsets_of_one_kind_of_files() -> None:
    names = [file_name(5, LOG_SUFFIX), file_name(3, LOG_SUFFIX), file_name(9, INDEX_SUFFIX), file_name(4, ".log.deleted"), "x.log"]
    assert offsets_of([*names, "00000000000000000001x.log"], LOG_SUFFIX) == [3, 5]
