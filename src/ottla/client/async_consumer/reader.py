"""What `getone`, `getmany` and iteration return: buffered records, one at a time or by partition, and errors in their place.

Records are taken at once when there are any, and never before a wait: a call that is cancelled loses none.
"""

import asyncio
import logging
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.client.async_consumer.errors import (
    ConsumerStoppedError,
    CorruptRecordException,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    error_of,
)
from ottla.client.async_consumer.record import ConsumerRecord, MakeRecord, Records
from ottla.client.async_consumer.shell import Shell
from ottla.client.engine.record_buffer import Slice, UndecodableRecords
from ottla.client.engine.values import LogTruncated, OffsetAndMetadata, PartitionFailure, PollIntervalExceeded, TopicUnavailable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

_LOG: Final = logging.getLogger("ottla.consumer")
RECORDS_MAX: Final = 20_000
"""Most records of one `getmany` without a limit: more would block the event loop for long."""
LOOP_MS_MAX: Final = 50.0
"""For so long at most calls return without a turn of the event loop, in which heartbeats and fetches are sent."""

Many = Mapping[TopicPartition, Sequence[ConsumerRecord]]


class Reader:
    """Hands out the records of `shell` as `make` makes them."""

    def __init__(self, shell: Shell, make: MakeRecord) -> None:
        self._shell = shell
        self._engine = shell.engine
        self._now_ms = shell.now_ms
        self._make = make
        self._turn_ms = 0.0

    def next_of_run(self) -> ConsumerRecord | None:
        """The next record, where there is nothing else to do; None: `one` has to be awaited."""
        run = self._engine.run
        now_ms = self._now_ms()
        if now_ms >= run.ends_ms or not run.rows:
            return None
        record = self._make(run.columns, run.rows[0])
        run.rows.popleft()
        run.polled_ms = now_ms
        return record

    async def one(self, among: Container[TopicPartition] | None) -> ConsumerRecord:
        """The next record, of the partitions `among` or of any."""
        while True:
            await self._begin()
            records = self._take(1, among)
            self._send_fetches()
            for found in records.values():
                if among is None:
                    self._engine.start_run(self._now_ms())
                return found[0]
            if not self._engine.has_records(among):  # otherwise positions moved behind offsets that hold none
                await self._wait(None)

    async def many(self, among: Container[TopicPartition] | None, timeout_ms: float, count: int | None) -> Many:
        """At most `count` records by partition; none after `timeout_ms`, or when the consumer stops meanwhile."""
        ends_ms = self._now_ms() + timeout_ms
        while True:
            await self._begin()
            records = self._take(RECORDS_MAX if count is None else count, among)
            self._send_fetches()
            if records:
                return records
            if not self._engine.has_records(among):
                if self._now_ms() >= ends_ms:
                    return {}
                await self._wait(ends_ms)
                if self._shell.is_stopped:
                    return {}

    async def _begin(self) -> None:
        """The application calls: commits are due, and errors are raised."""
        if self._now_ms() >= self._turn_ms + LOOP_MS_MAX:
            await asyncio.sleep(0)
            self._turn_ms = self._now_ms()
        while self._shell.decoder.is_loading and not self._shell.is_stopped:
            await self._shell.wait()
        if self._shell.is_stopped:
            raise ConsumerStoppedError
        if not self._shell.is_started:
            raise IllegalStateError("start() was not called yet")
        self._shell.poll(is_processed=True)
        while events := self._engine.take_events(1):
            if isinstance(events[0], PartitionFailure):
                raise self._error(events[0])
            if isinstance(events[0], LogTruncated):
                raise OffsetOutOfRangeError({events[0].partition: events[0].position.offset})
            if isinstance(events[0], TopicUnavailable):
                _LOG.warning("the topic %s cannot be read: %s", events[0].topic, events[0].error.name)
            if isinstance(events[0], PollIntervalExceeded):
                _LOG.warning("max_poll_interval_ms=%d exceeded: the member has left the group and joins again", events[0].interval_ms)

    def _error(self, event: PartitionFailure) -> KafkaError:
        partition = event.partition
        if event.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return error_of(event.error, f"{partition.topic}-{partition.partition} cannot be read: {event.why}")
        state = self._engine.subscriptions.partitions.get(partition)
        if state is None or state.position is None:
            return NoOffsetForPartitionError(partition)
        return OffsetOutOfRangeError({partition: state.position})

    def _send_fetches(self) -> None:
        if self._engine.has_fetches_due:
            self._shell.driver.run()

    async def _wait(self, ends_ms: float | None) -> None:
        """Until something has changed, a commit is due, or the wait is over."""
        now_ms = self._now_ms()
        wait_ms = self._engine.idle_ms(now_ms)
        await self._shell.wait(wait_ms if ends_ms is None else min(wait_ms, ends_ms - now_ms))
        self._turn_ms = self._now_ms()

    def _take(self, count: int, among: Container[TopicPartition] | None) -> Many:
        try:
            slices = self._engine.take(count, among=among)
        except UndecodableRecords as error:
            raise CorruptRecordException(str(error)) from error
        return self._views(slices) if self._make is ConsumerRecord else self._deserialized(slices)

    def _views(self, slices: Sequence[Slice]) -> Many:
        found: dict[TopicPartition, Records] = {}
        for part in slices:
            if part.first < part.end:
                columns: Any = part.columns
                found.setdefault(part.partition, Records()).add(columns, part.first, part.end)
        return found

    def _deserialized(self, slices: Sequence[Slice]) -> Many:
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for at, part in enumerate(slices):
            if part.first == part.end:
                continue
            records = found.setdefault(part.partition, [])
            failed = self._deserialize(part, records)
            if failed is not None:
                self._go_back([part._replace(first=part.end - failed.rows_left), *slices[at + 1 :]])
                if not records:
                    del found[part.partition]
                if not found:
                    raise failed.why
                break
        return found

    def _deserialize(self, part: Slice, records: list[ConsumerRecord]) -> "_Failed | None":
        """Append the records of a slice, up to one that cannot be deserialized."""
        for row in range(part.first, part.end):
            try:
                records.append(self._make(part.columns, row))
            except Exception as error:  # noqa: BLE001 - whatever the application's function raises is raised where the record is asked for
                return _Failed(error, part.end - row)
        return None

    def _go_back(self, slices: Sequence[Slice]) -> None:
        """Give back records that were taken and are not handed out: they are fetched again."""
        for part in reversed(slices):  # the first one of a partition counts
            state = self._engine.subscriptions.partitions[part.partition]
            offset = part.columns.offset(part.first) if part.first < part.end else part.next_offset
            where = OffsetAndMetadata(offset, state.epoch)
            self._engine.seek(part.partition, where)
            state.stored = where
        self._shell.driver.wake()


class _Failed(NamedTuple):
    """A record could not be deserialized: why, and how many of its slice it and the following ones are."""

    why: Exception
    rows_left: int
