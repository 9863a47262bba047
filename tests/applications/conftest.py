"""What the applications share: a thread that runs one until the test is done with it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from threading import Event

import pytest

Application = Callable[[Event], None]


@contextmanager
def running_in_a_thread(application: Application) -> Iterator[None]:
    """Run `application` until the end of the block, and raise what it raised."""
    stopping = Event()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(application, stopping)
        try:
            yield
        finally:
            stopping.set()
            future.result(30)  # what the application raised is why the test failed


@pytest.fixture
def running() -> Callable[[Application], AbstractContextManager[None]]:
    return running_in_a_thread
