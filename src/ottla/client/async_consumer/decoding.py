"""Fetched bytes as columns for an event loop: the compiled decoder takes seconds to load, and longer the first time, so a thread loads it.

Small fetches are decoded in plain Python at once. Records of the first large one wait until the thread is done; the loop does not.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from ottla.client.consumer.decoding import SMALL_BYTES, load
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.record_buffer import Columns
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.extras import missing_packages

_LOG: Final = logging.getLogger("ottla.consumer")


class LoadingDecoder:
    """The decoder of a consumer in `loop`; `load` is called in a thread, and `on_loaded` in the loop when it is over.

    Without the extra `arrow` everything is decoded in plain Python.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, on_loaded: Callable[[], None], load: Callable[[], object] = load) -> None:
        self._loop = loop
        self._on_loaded = on_loaded
        self._load = load
        self._has_compiled = not missing_packages("arrow")
        self._loading: asyncio.Future[object] | None = None

    def __call__(self, fetched: FetchedRecords) -> Iterator[Columns]:
        """The records of a fetch; none may be taken while it `is_loading`."""
        if len(fetched.records) <= SMALL_BYTES or not self._has_compiled:
            return decode_plain(fetched)
        if self._loading is None:
            self._loading = self._loop.run_in_executor(None, self._load)
            self._loading.add_done_callback(self._loaded)
        return _decode_compiled(fetched)

    @property
    def is_loading(self) -> bool:
        """Whether the thread is not done."""
        return self._loading is not None and not self._loading.done()

    def _loaded(self, loading: "asyncio.Future[object]") -> None:
        error = None if loading.cancelled() else loading.exception()
        if error is not None:
            _LOG.error(
                "the compiled decoder cannot be loaded; without the extra arrow, records are decoded in plain Python", exc_info=error
            )
        self._on_loaded()


def _decode_compiled(fetched: FetchedRecords) -> Iterator[Columns]:
    from ottla.client.consumer.arrow.columns import decode_arrow

    yield from decode_arrow(fetched)
