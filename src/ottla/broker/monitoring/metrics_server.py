"""A small HTTP server with a thread and a loop of its own, for /metrics and /health: it does not use the broker's loop.

Its pages are functions that read frozen snapshots. A client gets one response, then its connection is closed. The number of connections,
the size of a request and its time are bounded.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.broker.network.limits import limit_accept_errors

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 16
"""When there is one more, the oldest is closed: first of those that have not sent their request."""
HEAD_BYTES_MAX: Final = 16 * 1024
REQUEST_SECONDS_MAX: Final = 5
"""From connecting to the end of the request."""
RESPONSE_SECONDS_MAX: Final = 10
"""From connecting to the end of the response."""


class HttpResponse(NamedTuple):
    """An HTTP response: status, content type and body."""

    status: int
    content_type: str
    body: bytes


Page = Callable[[], HttpResponse]
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class MetricsServer:
    """Serves `pages` by path until it is closed. Raises OSError when the address cannot be used."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._reading: dict[asyncio.StreamWriter, None] = {}
        self._writing: dict[asyncio.StreamWriter, None] = {}
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        failures: list[OSError] = []
        self.port = port
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(host, port, ready, failures), name="ottla-metrics", daemon=True)
        self._thread.start()
        ready.wait()
        if failures:
            self._thread.join()
            raise failures[0]

    def close(self) -> None:
        """Stop serving and wait for the thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop = None

    def _run(self, host: str, port: int, ready: threading.Event, failures: list[OSError]) -> None:
        asyncio.run(self._serve(host, port, ready, failures))

    async def _serve(self, host: str, port: int, ready: threading.Event, failures: list[OSError]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        limit_accept_errors(self._loop)
        try:
            server = await asyncio.start_server(self._connected, host, port, limit=HEAD_BYTES_MAX)
        except OSError as error:
            failures.append(error)
            ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._close_oldest()
        self._reading[writer] = None
        writer.transport.set_write_buffer_limits(0)  # so that `drain` waits until all is sent
        try:
            async with asyncio.timeout(RESPONSE_SECONDS_MAX):
                async with asyncio.timeout(REQUEST_SECONDS_MAX):
                    head = await reader.readuntil(b"\r\n\r\n")
                self._reading.pop(writer, None)
                self._writing[writer] = None
                writer.write(_encoded(*self._answer(head)))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            log.debug("a client of the metrics left before its response: %s", error)
        finally:
            self._reading.pop(writer, None)
            self._writing.pop(writer, None)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _close_oldest(self) -> None:
        """Close the oldest connections while there are too many, so that idle ones do not keep others out."""
        while len(self._reading) + len(self._writing) >= CONNECTIONS_MAX:
            group = self._reading or self._writing
            oldest = next(iter(group))
            del group[oldest]
            oldest.transport.abort()

    def _answer(self, head: bytes) -> tuple[HttpResponse, bool]:
        """The response to a request, and whether its body is to be sent."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HttpResponse(400, _TEXT, b"This is an HTTP server.\n"), True
        method, target = words[0], words[1].partition(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return HttpResponse(405, _TEXT, b"Only GET is answered here.\n"), True
        page = self._pages.get(target)
        if page is None:
            return HttpResponse(404, _TEXT, f"There is {', '.join(self._pages)} here.\n".encode()), method == b"GET"
        try:
            return page(), method == b"GET"
        except Exception:
            log.exception("%s cannot be made", target)
            return HttpResponse(500, _TEXT, b"The page cannot be made; the broker's log says why.\n"), method == b"GET"


def _encoded(answer: HttpResponse, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if has_body else b"")
