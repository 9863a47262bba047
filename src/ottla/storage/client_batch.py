"""From what a client sent for a partition to what the log stores of it: judged first, then brought into the topic's codec.

It knows nothing of offsets or producers, and it writes nothing.
"""

from ottla.core.records.batch import BatchHeader
from ottla.storage.recompression import PRODUCER, recompress
from ottla.storage.settings import LogSettings
from ottla.storage.validation import Refused, read_client_batch, refusal


def accept(batches: memoryview, settings: LogSettings, now_ms: int) -> tuple[BatchHeader, memoryview] | Refused:
    """The one batch in `batches`, with its header, as it may be numbered and stored; a view into `batches` where nothing changes."""
    header = read_client_batch(batches)
    if isinstance(header, Refused):
        return header
    batch = batches if header.size_bytes == len(batches) else batches[: header.size_bytes]
    refused = refusal(header, batch, settings, now_ms)
    if refused is not None:
        return refused
    return (header, batch) if settings.compression_type == PRODUCER else recompress(header, batch, settings)
