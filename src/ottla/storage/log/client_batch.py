"""From what a client sent for a partition to what the log stores of it: checked first, then brought into the topic's codec.

The header and the checksum are checked at once. Where the records themselves are needed, a compressed batch may hold a hundred times its
own size: the caller decides on which thread they are read. Nothing here knows offsets or producers, and nothing is written.
"""

from dataclasses import dataclass

from ottla.core.errors import ErrorCode, PeerError
from ottla.core.records.batch import DECOMPRESSED_BYTES_MAX, HEADER_BYTES, BatchHeader
from ottla.core.records.compression import Compressed, Inflated, inflate, too_much
from ottla.core.records.record_checks import CheckRecords, check_records
from ottla.storage.log.recompression import PRODUCER, needs_recompression, recompress
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import LogRefusal, header_refusal, needs_record_checks, read_client_batch, record_refusal, size_refusal

Accepted = tuple[BatchHeader, memoryview]
"""A batch that may be numbered and stored, with its header."""


@dataclass(frozen=True, slots=True)
class UnreadBatch:
    """A batch whose header and checksum are sound, and whose records must be read, by `settings`, before it may be appended.

    `batch` is a view into what the client sent: a caller that keeps this longer than those bytes are valid takes a `copy`.
    """

    header: BatchHeader
    batch: memoryview
    settings: LogSettings
    now_ms: int

    def copy(self) -> "UnreadBatch":
        """The same with bytes of its own."""
        return UnreadBatch(self.header, memoryview(bytearray(self.batch)), self.settings, self.now_ms)

    def decompress(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Inflated | LogRefusal | None:
        """The records without compression; None when they take more than `bytes_max` bytes, which may still be allowed. Any thread."""
        try:
            section = inflate(self.header.codec, self.batch[HEADER_BYTES:], output_bytes_max=bytes_max)
        except PeerError as error:
            return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        if section is None and bytes_max >= DECOMPRESSED_BYTES_MAX:
            return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(too_much(self.header.codec, bytes_max)))
        return section

    def read(self, section: Inflated | LogRefusal | None = None, *, check: CheckRecords = check_records) -> Accepted | LogRefusal:
        """The batch as it may be stored. `section`: what `decompress` gave, if it was called. Any thread."""
        header, settings = self.header, self.settings
        is_recompressed = needs_recompression(header, settings)
        if section is None and is_recompressed:
            section = self.decompress()
            assert section is not None, "without a bound there is a section, or a refusal"
        if isinstance(section, LogRefusal):
            return section
        refused = self._record_refusal(section, check) or size_refusal(len(self.batch), settings)
        if refused is not None:
            return refused
        if not is_recompressed:
            return header, self.batch
        assert section is not None, "it was decompressed above"
        return recompress(header, section, settings)

    def _record_refusal(self, section: Inflated | None, check: CheckRecords) -> LogRefusal | None:
        if not needs_record_checks(self.header, self.settings, self.now_ms):
            return None
        records = Compressed(self.header.codec, self.batch[HEADER_BYTES:]) if section is None else section
        try:
            return record_refusal(self.header, records, self.settings, self.now_ms, check)
        except PeerError as error:
            return LogRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


def accept(batches: memoryview, settings: LogSettings, now_ms: int) -> Accepted | LogRefusal | UnreadBatch:
    """The one batch in `batches`, with its header, as it may be numbered and stored; a view into `batches` where nothing changes."""
    header = read_client_batch(batches)
    if isinstance(header, LogRefusal):
        return header
    batch = batches if header.size_bytes == len(batches) else batches[: header.size_bytes]
    refused = header_refusal(header, batch, settings)
    if refused is not None:
        return refused
    if needs_record_checks(header, settings, now_ms) or (settings.compression_type != PRODUCER and needs_recompression(header, settings)):
        return UnreadBatch(header, batch, settings, now_ms)
    if len(batch) > settings.segment_bytes:
        return size_refusal(len(batch), settings) or (header, batch)
    return header, batch
