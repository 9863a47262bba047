"""What a dump shows by default."""

from ottla.storage.dump.items import DumpOptions, FindingItem


def test_batches_and_index_entries_are_shown_and_records_are_not() -> None:
    options = DumpOptions()
    assert (options.with_records, options.with_entries, options.is_sanity_check, options.bytes_max) == (False, True, False, None)


def test_a_finding_is_a_fault_unless_it_says_otherwise() -> None:
    assert FindingItem("heading", "text").is_fault
