"""Which implementation reads the records of one batch: the compiled one for many bytes, where it is installed; else the reference.

Both give the same findings. Any thread may call; NumPy and Numba are loaded only for many bytes, by the thread that calls. The compiled
one reads compressed records while another thread decompresses them, so that memory never holds all of them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.core.records import record_checks as reference
from ottla.core.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader
from ottla.core.records.compression import NONE, STREAMED, Compressed, Inflated, inflate
from ottla.core.records.record_checks import Checks, Findings, Section
from ottla.storage.log.inflating import Inflating

if TYPE_CHECKING:
    from ottla.columnar.record_checks.section_window import SectionWindow

COMPILED_BYTES_MIN: Final = 2 << 20
"""Fewer bytes of records are read by the reference implementation before the compiled code is only loaded."""


class RecordCheckBackend:
    """`check` is a CheckRecords, `find` a FindTimestamp."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.columnar.record_checks.checks", "ottla.columnar.record_checks.kernels", start)

    def check(self, section: Section, header: BatchHeader, checks: Checks) -> Findings:
        """Check the records of a client's batch."""
        section = _decompressed_if_small(section)
        if _is_small(section) or not self._code.is_compiled():
            return reference.check_records(section, header, checks)
        from ottla.columnar.record_checks.checks import check_records

        with _window(section) as window:
            return check_records(window, header, checks)

    def find(self, section: Section, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
        """Find the first record at or after a timestamp and an offset."""
        section = _decompressed_if_small(section)
        if _is_small(section) or not self._code.is_compiled():
            return reference.find_timestamp(section, header, timestamp_ms, from_offset)
        from ottla.columnar.record_checks.checks import find_timestamp

        with _window(section) as window:
            return find_timestamp(window, header, timestamp_ms, from_offset)

    def close(self) -> None:
        """Stop the process that compiles, if there is one."""
        self._code.close()


def _decompressed_if_small(section: Section) -> Section:
    if not isinstance(section, Compressed):
        return section
    output = inflate(section.codec, section.data, output_bytes_max=COMPILED_BYTES_MIN - 1)
    return section if output is None else output


def _is_small(section: Section) -> bool:
    return not isinstance(section, Compressed) and len(section) < COMPILED_BYTES_MIN


@contextmanager
def _window(section: Section) -> "Iterator[SectionWindow]":
    from ottla.columnar.record_checks.section_window import SectionWindow

    with ExitStack() as stack:
        if isinstance(section, Compressed) and section.codec in STREAMED:
            try:
                source = stack.enter_context(Inflating(section, output_bytes_max=DECOMPRESSED_BYTES_MAX))
            except OSError:  # no descriptor is free; it can be read all the same
                pass
            else:
                yield SectionWindow(source.read_into, DECOMPRESSED_BYTES_MAX)
                return
        yield SectionWindow.whole(_whole(section))


def _whole(section: Section) -> Inflated:
    if not isinstance(section, Compressed):
        return section
    return section.data if section.codec is NONE else section.inflate(DECOMPRESSED_BYTES_MAX)
