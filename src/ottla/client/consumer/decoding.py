"""Fetched bytes as columns of records: compiled where the extra `arrow` is installed, else in plain Python, with equal results.

Small fetches are always decoded in plain Python: the compiled decoder takes long to load, and some time to begin.
"""

from collections.abc import Iterator
from typing import Final

from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.record_buffer import Columns, Decode
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.extras import missing_packages

SMALL_BYTES: Final = 16 * 1024


def decoder() -> Decode:
    """The decoder for this installation."""
    return decode_plain if missing_packages("arrow") else _decode


def _decode(fetched: FetchedRecords) -> Iterator[Columns]:
    if len(fetched.records) <= SMALL_BYTES:
        return decode_plain(fetched)
    from ottla.client.consumer.arrow.columns import decode_arrow

    return decode_arrow(fetched)
