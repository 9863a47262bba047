"""Which implementation reads the records of one batch: the compiled one for many bytes, where it is installed; else the reference.

Both give the same findings. Any thread may call; NumPy and Numba are loaded only for many bytes, by the thread that calls.
"""

from typing import Final

from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.core.records import record_checks as reference
from ottla.core.records.batch import BatchHeader
from ottla.core.records.record_checks import Checks, Findings

COMPILED_BYTES_MIN: Final = 2 << 20
"""Fewer bytes of records are read by the reference implementation before the compiled code is only loaded."""


class RecordCode:
    """`check` is a CheckRecords, `find` a FindTimestamp."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.columnar.record_checks", "ottla.columnar.record_check_kernels", start)

    def check(self, section: bytearray, header: BatchHeader, checks: Checks) -> Findings:
        """Check the records of a client's batch."""
        if len(section) < COMPILED_BYTES_MIN or not self._code.is_there():
            return reference.check_records(section, header, checks)
        from ottla.columnar import record_checks

        return record_checks.check_records(section, header, checks)

    def find(self, section: bytearray, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
        """Find the first record at or after a timestamp and an offset."""
        if len(section) < COMPILED_BYTES_MIN or not self._code.is_there():
            return reference.find_timestamp(section, header, timestamp_ms, from_offset)
        from ottla.columnar import record_checks

        return record_checks.find_timestamp(section, header, timestamp_ms, from_offset)

    def close(self) -> None:
        """Ends the process that compiles, if there is one."""
        self._code.close()
