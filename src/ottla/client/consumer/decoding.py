"""Fetched bytes as columns of records: compiled where the extra `arrow` is installed, else in plain Python, with equal results.

The compiled decoder takes a second or more to load, and longer the first time. A thread loads it when the first large fetch comes: no
call of an application imports and compiles, or waits until that is done. Until then, and in small fetches always, records are decoded
in plain Python.
"""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Final

from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.record_buffer import Columns, Decode
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.extras import missing_packages
from ottla.protocol.model import Header, Record, TopicPartition
from ottla.protocol.records.batch import encode_batch

_LOG: Final = logging.getLogger("ottla.consumer")
SMALL_BYTES: Final = 16 * 1024


def load() -> Decode:
    """Load the compiled decoder, and use it once: what is compiled then is kept on the disk, where that is possible."""
    from ottla.client.consumer.arrow.columns import decode_arrow

    batch = memoryview(bytes(encode_batch([Record(0, 0, b"key", b"value", (Header("name", b"value"),))], base_offset=0)))
    for columns in decode_arrow(FetchedRecords(TopicPartition("", 0), 0, 1, batch)):
        columns.headers(0)  # type: ignore[attr-defined]
    return decode_arrow


class BackgroundDecoder:
    """The decoder of all consumers of this process; the first large fetch begins to load the compiled one."""

    def __init__(self) -> None:
        self._compiled: Decode | None = None
        self._loading: threading.Thread | None = None

    def __call__(self, fetched: FetchedRecords) -> Iterator[Columns]:
        """The records of a fetch."""
        if len(fetched.records) <= SMALL_BYTES:
            return decode_plain(fetched)
        loading = self._loading
        if loading is None:
            # Not a daemon: at the end of the process it would be cut off inside of the compiler.
            loading = threading.Thread(target=self._load, name="ottla-decoder", daemon=False)
            loading.start()
            self._loading = loading
        return self._decode(fetched, loading)

    def _decode(self, fetched: FetchedRecords, loading: threading.Thread) -> Iterator[Columns]:
        """In plain Python, up to the batch before which the compiled decoder is there."""
        position, pieces = fetched.position, decode_plain(fetched)
        while (compiled := self._compiled) is None:
            begun = time.monotonic()
            columns = next(pieces, None)
            if columns is None:
                return
            took = time.monotonic() - begun
            yield columns
            position = columns.offset(len(columns) - 1) + 1
            # The thread shares one interpreter with all others: where it gets some time, less is decoded in plain Python.
            loading.join(2 * took)
        yield from compiled(fetched._replace(position=position))

    def wait(self) -> None:
        """Until the compiled decoder is loaded, if that has begun."""
        if self._loading is not None:
            self._loading.join()

    def _load(self) -> None:
        try:
            self._compiled = load()
        except Exception:  # noqa: BLE001 - whatever it is, records can be decoded without it
            _LOG.exception("the compiled decoder cannot be loaded: records are decoded in plain Python; reinstall the extra arrow")


DECODER: Final = BackgroundDecoder()


def decoder() -> Decode:
    """The decoder for this installation."""
    return decode_plain if missing_packages("arrow") else DECODER
