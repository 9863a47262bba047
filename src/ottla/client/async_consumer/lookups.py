"""Questions to the cluster that are no part of reading: offsets by time, committed offsets, topics. They run in a thread, one at a time.

The thread and its connections are there from the first question until `stop`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ottla.client.admin.client import AdminClient
from ottla.client.async_consumer.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError, error_of
from ottla.client.brokers import Connect
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import ClientError, RequestFailedError, UnknownTopicError
from ottla.client.settings import ClientSettings
from ottla.core.errors import PeerError

T = TypeVar("T")


class Lookups:
    """An admin client for an event loop. `timeout_ms` is the time of each question."""

    def __init__(self, settings: ClientSettings, *, connect: Connect, timeout_ms: int) -> None:
        self._settings = settings
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._executor: ThreadPoolExecutor | None = None
        self._admin: AdminClient | None = None

    async def ask(self, call: Callable[[AdminClient], T]) -> T:
        """The result of `call`. Raises KafkaTimeoutError without an answer in time, and the error of a refusal."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="ottla-consumer-lookup")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._ask, call)

    async def stop(self) -> None:
        """Close the connections, and end the thread."""
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.get_running_loop().run_in_executor(executor, self._close)
            executor.shutdown()

    def _ask(self, call: Callable[[AdminClient], T]) -> T:
        if self._admin is None:
            self._admin = AdminClient(self._settings, timeout_ms=self._timeout_ms, connect=self._connect)
        try:
            return call(self._admin)
        except UnknownTopicError as error:
            raise UnknownTopicOrPartitionError(str(error)) from error
        except RequestFailedError as error:
            raise error_of(error.code, str(error)) from error
        except DeadlineExceededError as error:
            raise KafkaTimeoutError(str(error)) from error
        except ClientError as error:
            raise KafkaConnectionError(str(error)) from error
        except PeerError as error:
            raise KafkaError(str(error)) from error

    def _close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None
