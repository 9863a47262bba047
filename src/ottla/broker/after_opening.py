"""Requests that name partitions which may have to be opened first: they wait for worker threads, and are answered in pieces.

Order within a connection is kept, since a connection has one request under way. What the answer is, the API's own file decides.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.api import Request, nothing
from ottla.broker.request_scheduler import Work

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.core.catalogue.catalogue import Topic

_CHECKED_PER_PIECE: Final = 256


def after_opening(node: "Node", request: Request, named: Iterable[tuple[str, int]], answer: Callable[[], Work | None]) -> None:
    """Calls `answer` when the partitions of `named` that this broker leads are open, offline or gone: at once when they are already.

    What it returns is the rest of its work, if there is one.
    """
    node.cluster.scheduler.run(request, _open_then_answer(node, request, named, answer))


def _open_then_answer(node: "Node", request: Request, named: Iterable[tuple[str, int]], answer: Callable[[], Work | None]) -> Work:
    topics, partitions = node.cluster.catalogue.topics, node.cluster.partitions
    unopened: list[tuple[Topic, int]] = []
    for count, (name, number) in enumerate(named, 1):
        topic = topics.get(name)
        is_led = topic is not None and 0 <= number < len(topic.leaders) and node.leads(topic, number)
        if topic is not None and is_led and not partitions.is_ready(topic, number):
            unopened.append((topic, number))
        if count % _CHECKED_PER_PIECE == 0:
            yield
    if not unopened:
        yield from answer() or ()
        return

    async def open_then_answer() -> None:
        await partitions.open_all(unopened)
        request.gone = nothing
        work = answer()
        if work is not None:
            node.cluster.scheduler.run(request, work)

    task = node.cluster.background.start(request, open_then_answer())

    def gone() -> None:
        task.cancel()

    request.gone = gone
