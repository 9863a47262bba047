"""Offsets in aiokafka's interface: positions and commits, and what the cluster knows of offsets, by time or committed, and of topics.

Questions to the cluster that are no part of reading run in threads, one for each that waits. A thread and its connections are there for the
next question, until one that is cancelled, or `stop`.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.client.async_consumer.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    error_of,
)
from ottla.client.async_consumer.record import OffsetAndTimestamp
from ottla.client.async_consumer.shell import Shell
from ottla.client.consumer.message import key, keys
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.engine.commits import NOT_A_MEMBER, Commit
from ottla.client.engine.values import OffsetAndMetadata
from ottla.client.errors import ClientError, RequestFailedError, UnknownTopicError
from ottla.client.network.connection import BrokerConnection
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition

T = TypeVar("T")


class _Ended(Exception):
    """Nobody waits for the answer any more."""


class _Worker:
    """A thread that asks one question at a time, and keeps its connections for the next one."""

    def __init__(self, settings: ClientSettings, *, connect: Callable[..., BrokerConnection], timeout_ms: int) -> None:
        self._ended = threading.Event()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ottla-consumer-lookup")
        opened = partial(connect, opening=self._add_socket)
        self._admin = AdminClient(settings, timeout_ms=timeout_ms, connect=opened, pause=self._pause)

    async def ask(self, call: Callable[[AdminClient], T]) -> T:
        """The result of `call`, which raises _Ended after `end`."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._ask, call)

    def end(self) -> "Future[None]":
        """End the thread, which closes its connections before: a question that it waits with fails now."""
        self._ended.set()
        for each in list(self._sockets):
            with suppress(OSError):  # it may be closed
                each.shutdown(socket.SHUT_RDWR)
        closed = self._executor.submit(self._admin.close)
        self._executor.shutdown(wait=False)
        return closed

    def _ask(self, call: Callable[[AdminClient], T]) -> T:
        try:
            return call(self._admin)
        except ClientError as error:
            raise (_Ended() if self._ended.is_set() else error) from error

    def _add_socket(self, opened: socket.socket) -> None:
        self._sockets.add(opened)
        if self._ended.is_set():
            raise _Ended

    def _pause(self, seconds: float) -> None:
        if self._ended.wait(seconds):
            raise _Ended


class Lookups:
    """An admin client for an event loop. `timeout_ms` is the time of each question."""

    def __init__(self, settings: ClientSettings, *, connect: Callable[..., BrokerConnection], timeout_ms: int) -> None:
        self._new_worker = partial(_Worker, settings, connect=connect, timeout_ms=timeout_ms)
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()

    async def ask(self, call: Callable[[AdminClient], T]) -> T:
        """The result of `call`. Raises KafkaTimeoutError without an answer in time, and the error of a refusal.

        Cancelled, it ends the thread that waits for the answer.
        """
        worker = self._idle.pop() if self._idle else self._new_worker()
        self._busy.add(worker)
        try:
            answer = await worker.ask(call)
        except asyncio.CancelledError:
            worker.end()
            self._busy.discard(worker)
            raise
        except Exception as error:
            self._set_idle(worker)
            raise _as_in_aiokafka(error) from error
        self._set_idle(worker)
        return answer

    async def stop(self) -> None:
        """End all threads and their connections. Questions that wait raise ConsumerStoppedError."""
        workers = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        await asyncio.gather(*[asyncio.wrap_future(worker.end()) for worker in workers])

    def _set_idle(self, worker: _Worker) -> None:
        if worker in self._busy:
            self._busy.remove(worker)
            self._idle.append(worker)


def _as_in_aiokafka(error: Exception) -> Exception:
    if isinstance(error, _Ended):
        return ConsumerStoppedError()
    if isinstance(error, UnknownTopicError):
        return UnknownTopicOrPartitionError(str(error))
    if isinstance(error, RequestFailedError):
        return error_of(error.code, str(error))
    if isinstance(error, DeadlineExceededError):
        return KafkaTimeoutError(str(error))
    if isinstance(error, ClientError):
        return KafkaConnectionError(str(error))
    return KafkaError(str(error)) if isinstance(error, PeerError) else error


class Offsets:
    """The offsets of the consumer in `shell`."""

    def __init__(self, shell: Shell, lookups: Lookups) -> None:
        self._shell = shell
        self._lookups = lookups
        settings = shell.engine.settings
        self._group_id = settings.group.group_id
        self._timeout_ms = settings.api_timeout_ms

    async def commit(self, offsets: Mapping[Any, Any] | None) -> None:
        """Commit `offsets`, or the positions of all partitions. Raises CommitFailedError."""
        self._check_group()
        engine = self._shell.engine
        engine.settle()
        partitions = engine.subscriptions.partitions
        if engine.subscriptions.is_empty:
            raise IllegalStateError("Not subscribed to any topics")
        if not partitions:
            raise IllegalStateError("No partitions assigned")
        if offsets is None:
            wanted = {
                partition: OffsetAndMetadata(state.position, state.epoch)
                for partition, state in partitions.items()
                if state.position is not None
            }
        else:
            wanted = given_offsets(offsets)
            for partition in wanted:
                self._shell.state(partition)
        commit = engine.commits.commit(Commit(wanted, retry_until_ms=self._shell.now_ms() + self._timeout_ms))
        self._shell.driver.wake()
        await self._shell.wait_until(lambda: commit.is_done, float("inf"))
        if commit.error in NOT_A_MEMBER:
            raise CommitFailedError(is_rebalancing=commit.error is ErrorCode.REBALANCE_IN_PROGRESS)
        if commit.error is not ErrorCode.NONE:
            raise error_of(commit.error)

    async def committed(self, partition: TopicPartition) -> int | None:
        """The committed offset, None without one."""
        self._check_group()
        found = (await self._lookups.ask(lambda admin: admin.committed([self._group_id])))[self._group_id]
        if isinstance(found, Failure):
            raise error_of(found.code)
        committed = found.get(partition)
        return None if committed is None or committed.offset < 0 else committed.offset

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record; it is waited for where it is not known yet."""
        shell = self._shell
        while (position := shell.state(partition).position) is None:
            await shell.wait_until(lambda: self._is_found([partition]), self._timeout_ms)
        return position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset."""
        self._shell.state(partition)
        self._shell.engine.seek(partition, OffsetAndMetadata(offset))
        self._shell.driver.wake()

    async def seek_to(self, partitions: Iterable[TopicPartition], where: int) -> bool:
        """Continue at EARLIEST or LATEST: whether these were found in time."""
        sought = list(partitions)
        for partition in sought:
            self._shell.state(partition)
        for partition in sought:
            self.seek(partition, where)
        return await self._shell.wait_until(lambda: self._is_found(sought), self._timeout_ms)

    async def seek_to_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Continue at the committed offsets, where there are some."""
        sought = list(partitions)
        for partition in sought:
            self._shell.state(partition)
        found = {partition: await self.committed(partition) for partition in sought}
        for partition, offset in found.items():
            if offset is not None:
                self.seek(partition, offset)
        return found

    async def list_offsets(self, partitions: Iterable[Any], timestamp: int) -> dict[TopicPartition, int]:
        """The first offset (EARLIEST), or the end (LATEST), of each partition."""
        wanted = dict.fromkeys(keys(partitions), timestamp)
        found = await self._lookups.ask(lambda admin: admin.offsets_for_times(wanted, creates_topics=True))
        return {partition: listed.offset for partition, listed in found.items()}

    async def offsets_for_times(self, timestamps: Mapping[Any, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time, None without one."""
        wanted = {key(partition): int(timestamp) for partition, timestamp in timestamps.items()}
        for partition, timestamp in wanted.items():
            if timestamp < 0:
                raise ValueError(f"The target time for partition {partition} is {timestamp}. The target time cannot be negative.")
        found = await self._lookups.ask(lambda admin: admin.offsets_for_times(wanted, creates_topics=True))
        return {
            partition: None if listed.offset < 0 else OffsetAndTimestamp(listed.offset, listed.timestamp_ms)
            for partition, listed in found.items()
        }

    def _is_found(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether each partition has a position, or is assigned no more."""
        assigned = self._shell.engine.subscriptions.partitions
        return all(each not in assigned or assigned[each].position is not None for each in partitions)

    def _check_group(self) -> None:
        if not self._group_id:
            raise IllegalOperation("Requires group_id")


def given_offsets(offsets: Mapping[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """What an application wants to commit: offsets, or pairs of an offset and metadata, by partition."""
    if not offsets or not isinstance(offsets, Mapping):
        raise ValueError(f"offsets must be a dictionary of partitions and offsets, not {offsets!r}")
    return {key(partition): _offset(offset) for partition, offset in offsets.items()}


def _offset(given: Any) -> OffsetAndMetadata:
    if isinstance(given, int):
        return OffsetAndMetadata(given)
    try:
        offset, metadata = given
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected an offset, or an offset with metadata, not {given!r}") from error
    if not isinstance(metadata, str):
        raise TypeError(f"metadata must be text, not {metadata!r}")
    return OffsetAndMetadata(int(offset), metadata=metadata)
