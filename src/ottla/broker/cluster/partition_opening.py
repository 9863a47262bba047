"""Requests that name partitions which may have to be opened first: they wait for worker threads, and are answered in pieces.

Order within a connection is kept, since a connection has one request under way. The API's own file decides the response.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.broker.cluster.brokers import Node
from ottla.broker.network.request import Request, nothing
from ottla.broker.network.scheduling import Background, RequestScheduler, Work
from ottla.broker.partitions.partitions import Partitions
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import Topic

_CHECKED_PER_PIECE: Final = 256


class PartitionOpening:
    """The partitions that one broker leads."""

    def __init__(
        self,
        *,
        node: Node,
        cluster_metadata: ClusterMetadata,
        partitions: Partitions,
        scheduler: RequestScheduler,
        background: Background,
    ) -> None:
        self._node = node
        self._cluster_metadata = cluster_metadata
        self._partitions = partitions
        self._scheduler = scheduler
        self._background = background

    def then(self, request: Request, named: Iterable[tuple[str, int]], answer: Callable[[], Work | None]) -> None:
        """Call `answer` when the partitions of `named` that this broker leads are open, offline or gone: at once when they are already.

        `answer` may return the rest of its work.
        """
        self._scheduler.run(request, self._open_then_answer(request, named, answer))

    def _open_then_answer(self, request: Request, named: Iterable[tuple[str, int]], answer: Callable[[], Work | None]) -> Work:
        topics, partitions = self._cluster_metadata.topics, self._partitions
        unopened: list[tuple[Topic, int]] = []
        for count, (name, number) in enumerate(named, 1):
            topic = topics.get(name)
            is_led = topic is not None and 0 <= number < len(topic.leaders) and self._node.leads(topic, number)
            if topic is not None and is_led and not partitions.is_ready(topic, number):
                unopened.append((topic, number))
            if count % _CHECKED_PER_PIECE == 0:
                yield
        if not unopened:
            yield from answer() or ()
            return

        async def open_then_answer() -> None:
            await partitions.open_all(unopened)
            request.on_disconnect = nothing
            work = answer()
            if work is not None:
                self._scheduler.run(request, work)

        task = self._background.start(request, open_then_answer())

        def on_disconnect() -> None:
            task.cancel()

        request.on_disconnect = on_disconnect
