"""Simulated transactions: a broker on a disk with faults, in virtual time, with producers of both versions, zombies and kills, from a seed.

Requests go through the broker's own handlers; nothing waits for real time. A seed decides what producers do, when a write or a sync fails,
when the machine loses power, the process is killed or a coordinator reads its log again. `--appends` kills the process at every append of
one transaction's life, one after the other, instead. One seed alone is traced.

What must hold: what an answer called committed is read, once and whole, and its offset is the group's; what was aborted or is open is not
read; transactions without an answer are read whole or not at all; fenced producers get no records in; in the end nothing is open.
"""

import argparse
import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from ottla.broker.composition import Components
from ottla.broker.network.dispatch import Dispatcher
from ottla.config import BrokerConfig
from ottla.coordinator.placement import coordinator_partition
from ottla.log.file_system import MemoryFiles
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, encode_batch, split_batches
from ottla.protocol.records.control import ControlType, control_type
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import encode
from ottla.protocol.wire.primitives import Writer
from ottla.testing.raw_client import RawClient, build_request
from tests.support.kit.faulty_files import FaultyFiles
from tests.support.kit.sessions import client_session, listen
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.simulation.broken_coordinators import BROKEN

NAME = "transactions"
STEPS: Final = 40
TOPIC, GROUP, PARTITIONS = "t", "g", 2
NAMES: Final = ("x", "y")
TIMEOUT_MS: Final = 3_000
PRODUCE, FETCH, OFFSET_FETCH = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_FETCH
CONFIG: Final = {
    "log.flush.interval.messages": "1",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""What is answered is durable, so that a loss of power may lose nothing of it."""
RETRIABLE: Final = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
ATTEMPTS_MAX: Final = 12
RETRY_MS: Final = 150
SETTLE_MS: Final = 60_000
T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands at the next timer when nothing else is to be done, and whose executors run at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now_s = max(self.now_s, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


@dataclass(eq=False)
class Transaction:
    """One transaction as its producer sees it. `values` by partition, `offset`: what it committed for the group; None: nothing."""

    name: str
    values: list[tuple[int, bytes]] = field(default_factory=list)
    offset: int | None = None
    outcome: bool | None = None
    """Whether it was committed; None while it is open, or when no answer said so."""
    is_open: bool = True
    may_commit: bool = False
    """Whether a commit was asked for."""


@dataclass(eq=False)
class Producer:
    """A producer with its epoch. `bumps`: the epoch rises with each end of a transaction (TV2)."""

    name: str
    bumps: bool
    id: int
    epoch: int
    sequences: dict[int, int] = field(default_factory=dict)
    added: set[str | int] = field(default_factory=set)
    transaction: Transaction | None = None
    must_begin_again: bool = False


class Life:
    """One seed: a broker, its disk, its producers, and what must be true of all."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.random = Random(seed)
        self.loop = loop
        self.files = FaultyFiles(MemoryFiles(), Random(seed))
        self.trace: list[str] = []
        self.transactions: list[Transaction] = []
        self.producers: dict[str, Producer] = {}
        self.zombies: list[Producer] = []
        self.wrong: list[str] = []
        self.count = 0
        self.cluster: Components
        self.dispatcher: Dispatcher

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.loop.now_s * 1000)

    async def start(self) -> None:
        """Start the broker on what the disk has."""
        self.cluster = Components(self.files, BrokerConfig(CONFIG), clock=self.now_ms, timer_clock=lambda: int(self.loop.now_s * 1000))
        node = self.cluster.brokers.nodes[1]
        listen(node, "127.0.0.1", 9092)
        self.cluster.open()
        self.dispatcher = self.cluster.dispatcher(node)
        await self.cluster.loaded(60)
        if self.cluster.topics.get(TOPIC) is None:
            self.cluster.topics.create(NewTopic(name=TOPIC, partitions=PARTITIONS))
            for key_type in (0, 1):
                await self.ask(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=["x"])

    async def end(self) -> None:
        """End the process without a word to the disk: tasks are gone, threads are ended."""
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
        before = self.cluster
        before.partitions._executor.shutdown()
        before.cleaner._run.pool.shutdown()
        before.loading_executor.shutdown()
        for group_loop in before.coordinators.by_broker[1].all():
            group_loop._cancel_timers()
        for transaction_loop in before.transaction_coordinators.by_broker[1].all():
            transaction_loop._cancel_timers()

    async def ask(self, key: int, version: int, **fields: Any) -> Any:
        """The answer of the broker, without a socket; None where it closed the connection."""
        asked = build_request(key, version, fields)
        header = Writer().int16(key).int16(version).int32(1).string("simulated")
        if asked.__flexible__:
            header.uvarint(0)
        frame = memoryview(bytearray(header.to_bytes() + encode(asked)))
        answer: asyncio.Future[bytes] = self.loop.create_future()
        api, request = self.dispatcher.read_request(frame, client_session(lambda _: None))
        request.send = lambda parts: None if answer.done() else answer.set_result(b"".join(parts))
        self.dispatcher.dispatch(api, request)
        try:
            data = await asyncio.wait_for(answer, 20)
        except TimeoutError:
            return None
        return RawClient.decode(asked, data[4:]) if data else None

    async def ask_again(self, code_of: Callable[[Any], int], key: int, version: int, **fields: Any) -> tuple[Any, ErrorCode | None]:
        """The answer once it says nothing that a client repeats; the last one, and its code (None: there was none)."""
        answer, code = None, None
        for _ in range(ATTEMPTS_MAX):
            answer = await self.ask(key, version, **fields)
            code = None if answer is None else ErrorCode(code_of(answer))
            if code is not None and code not in RETRIABLE:
                break
            await asyncio.sleep(RETRY_MS / 1000)
        return answer, code

    def say(self, *words: object) -> None:
        self.trace.append(" ".join(map(str, words)))

    # What producers do

    async def init(self, name: str) -> Producer | None:
        """A new producer of an id; the one before is a zombie from now on, and its transaction is aborted."""
        answer, code = await self.ask_again(
            lambda each: each.error_code, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout=TIMEOUT_MS
        )
        self.say("init", name, code)
        if code is not ErrorCode.NONE:
            return None
        before = self.producers.get(name)
        if before is not None:
            if before.transaction is not None:
                self.close(before.transaction, committed=False if not before.transaction.may_commit else None)
            self.zombies.append(before)
        producer = self.producers[name] = Producer(name, self.random.random() < 0.5, answer.producer_id, answer.producer_epoch)
        return producer

    def close(self, transaction: Transaction, *, committed: bool | None) -> None:
        transaction.is_open, transaction.outcome = False, committed

    def open_transaction(self, producer: Producer) -> Transaction:
        if producer.transaction is None:
            producer.transaction = Transaction(producer.name)
            self.transactions.append(producer.transaction)
        return producer.transaction

    async def produce(self, producer: Producer) -> bool:
        """One record in the producer's transaction; whether it was acknowledged."""
        partition, transaction = self.random.randrange(PARTITIONS), self.open_transaction(producer)
        self.count += 1
        value = b"%s %d" % (producer.name.encode(), self.count)
        transaction.values.append((partition, value))
        named = {"producer_id": producer.id, "producer_epoch": producer.epoch}
        if not producer.bumps and partition not in producer.added:
            topics = [{"name": TOPIC, "partitions": [partition]}]
            fields = {f"v3_and_below_{field}": value for field, value in named.items()}
            _, code = await self.ask_again(
                lambda each: each.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=producer.name,
                v3_and_below_topics=topics,
                **fields,
            )
            if code is not ErrorCode.NONE:
                self.say("add", producer.name, code)
                return False
            producer.added.add(partition)
        sequence = producer.sequences.get(partition, 0)
        batch = encode_batch(
            [Record(0, self.now_ms(), None, value)],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = [{"name": TOPIC, "partition_data": [{"index": partition, "records": bytes(batch)}]}]
        _, code = await self.ask_again(
            lambda each: each.responses[0].partition_responses[0].error_code,
            PRODUCE,
            12 if producer.bumps else 11,
            transactional_id=producer.name,
            acks=-1,
            timeout=1000,
            topic_data=data,
        )
        self.say("produce", producer.name, producer.epoch, partition, value.decode(), code)
        if code is not ErrorCode.NONE:
            return False
        producer.sequences[partition] = sequence + 1
        return True

    async def commit_offset(self, producer: Producer) -> bool:
        """The group's next offset in the partition of this producer, within its transaction."""
        transaction = self.open_transaction(producer)
        self.count += 1
        named = {"transactional_id": producer.name, "producer_id": producer.id, "producer_epoch": producer.epoch, "group_id": GROUP}
        if not producer.bumps and "offsets" not in producer.added:
            _, code = await self.ask_again(lambda each: each.error_code, ApiKey.ADD_OFFSETS_TO_TXN, 3, **named)
            if code is not ErrorCode.NONE:
                self.say("add offsets", producer.name, code)
                return False
            producer.added.add("offsets")
        part = {"partition_index": NAMES.index(producer.name), "committed_offset": self.count, "committed_leader_epoch": -1}
        _, code = await self.ask_again(
            lambda each: each.topics[0].partitions[0].error_code,
            ApiKey.TXN_OFFSET_COMMIT,
            5 if producer.bumps else 3,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": TOPIC, "partitions": [{**part, "committed_metadata": ""}]}],
            **named,
        )
        self.say("offset", producer.name, self.count, code)
        if code is not ErrorCode.NONE:
            return False
        transaction.offset = self.count
        return True

    async def finish(self, producer: Producer, *, commits: bool) -> bool:
        """End the producer's transaction; whether there was an answer without an error."""
        transaction = producer.transaction
        assert transaction is not None
        transaction.may_commit = commits
        fields = {"transactional_id": producer.name, "producer_id": producer.id, "producer_epoch": producer.epoch, "committed": commits}
        first = True
        code: ErrorCode | None = None
        answer: Any = None
        for _ in range(ATTEMPTS_MAX):
            answer = await self.ask(ApiKey.END_TXN, 5 if producer.bumps else 4, **fields)
            code = None if answer is None else ErrorCode(answer.error_code)
            if code is not None and code not in RETRIABLE:
                break
            first = False
            await asyncio.sleep(RETRY_MS / 1000)
        self.say("end", producer.name, producer.epoch, "commit" if commits else "abort", code)
        producer.transaction = None
        producer.added.clear()
        if code is ErrorCode.NONE:
            self.close(transaction, committed=commits)
            if producer.bumps:
                producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
                producer.sequences.clear()
            return True
        self.close(transaction, committed=False if (first and code is not None) or not commits else None)
        return False

    async def be_a_zombie(self) -> None:
        """A producer that was fenced tries to go on, with records, offsets and the end of its transaction."""
        zombie = self.random.choice(self.zombies)
        zombie.transaction, known = None, len(self.transactions)
        did = self.random.choice([self.produce, self.commit_offset])
        if await did(zombie):
            self.wrong.append(f"{zombie.name} at epoch {zombie.epoch} was fenced, and {did.__name__} was accepted")
        for transaction in self.transactions[known:]:
            self.close(transaction, committed=False)
        zombie.transaction = None

    # What happens to the broker

    async def crash(self) -> None:
        """The machine loses power."""
        self.say("crash")
        await self.end()
        self.files.crash()
        await self.start()

    async def kill(self) -> None:
        """The process is killed: what it had written is there."""
        self.say("kill")
        await self.end()
        self.files.heal()
        await self.start()

    async def reload(self) -> None:
        """A coordinator of transactions moves away and comes back."""
        number = coordinator_partition(self.random.choice(NAMES), 2)
        self.say("reload", number)
        self.cluster.transaction_coordinators.resign(number)
        self.cluster.transaction_coordinators.start([number])

    async def wait(self) -> None:
        """Time passes: perhaps a transaction's."""
        await asyncio.sleep(self.random.choice((0.01, 0.3, 1.0, TIMEOUT_MS / 1000 + 1)))

    def break_disk(self) -> None:
        """The next write fails somewhere, or the next sync."""
        if self.random.random() < 0.7:
            self.files.fail_next_write(after_bytes=self.random.choice((0, 1, 30, 61, 78, 120)))
        else:
            self.files.fail_next_sync()
        self.say("the disk will fail")

    # One life

    async def step(self) -> None:
        """One thing happens."""
        name = self.random.choice(NAMES)
        producer = self.producers.get(name)
        if producer is None or producer.must_begin_again or self.random.random() < 0.08:
            await self.init(name)
            return
        happening = self.random.random()
        if happening < 0.05:
            await self.crash()
        elif happening < 0.09:
            await self.kill()
        elif happening < 0.12:
            await self.reload()
        elif happening < 0.2:
            await self.wait()
        elif happening < 0.26:
            self.break_disk()
        elif happening < 0.34 and self.zombies:
            await self.be_a_zombie()
        elif happening < 0.62:
            producer.must_begin_again = not await self.produce(producer)
        elif happening < 0.72:
            producer.must_begin_again = not await self.commit_offset(producer)
        elif producer.transaction is not None:
            producer.must_begin_again = not await self.finish(producer, commits=self.random.random() < 0.7)
        await self.look()

    async def settle(self) -> None:
        """Nothing fails any more: all transactions end, and then nothing is open."""
        await self.kill()
        for name in NAMES:
            if await self.init(name) is None:
                self.wrong.append(f"{name} gets no producer any more")
        await asyncio.sleep(1)
        for partition in range(PARTITIONS):
            part = await self.fetch(partition)
            if part.last_stable_offset != part.high_watermark:
                self.wrong.append(f"partition {partition} is stable to {part.last_stable_offset} of {part.high_watermark}")
        await self.look(is_settled=True)

    async def fetch(self, partition: int) -> Any:
        """The whole partition, as a read_committed consumer gets it."""
        part = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 24, "current_leader_epoch": -1}
        answer = await self.ask(
            FETCH,
            12,
            max_wait=0,
            min_bytes=0,
            max_bytes=1 << 24,
            replica_id=-1,
            session_epoch=-1,
            isolation_level=1,
            topics=[{"topic": TOPIC, "partitions": [{**part, "last_fetched_epoch": -1}]}],
        )
        return answer.responses[0].partitions[0]

    async def look(self, *, is_settled: bool = False) -> None:
        """Read all as a consumer does, and compare it with what producers were told."""
        read: list[tuple[int, bytes]] = []
        for partition in range(PARTITIONS):
            part = await self.fetch(partition)
            if part.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                return  # the disk failed under it; a start will read it again
            read += [(partition, value) for value in committed_values(part)]
        offsets = await self.offsets()
        values = set(read)
        if len(values) != len(read):
            self.wrong.append("a record is read twice")
        for transaction in self.transactions:
            there = [value in values for value in transaction.values]
            if transaction.outcome is True and is_settled and not all(there):
                self.wrong.append(f"{transaction} was committed, and is not read")
            elif (transaction.outcome is False or (transaction.is_open and not transaction.may_commit)) and any(there):
                self.wrong.append(f"{transaction} is read")
            elif is_settled and any(there) and not all(there):
                self.wrong.append(f"{transaction} is torn")
        for name, offset in offsets.items():
            self.check_offset(name, offset, values, is_settled=is_settled)

    def check_offset(self, name: str, offset: int, values: set[tuple[int, bytes]], *, is_settled: bool) -> None:
        """The group's offset is that of the last transaction that was committed, or perhaps was."""
        of_it = [each for each in self.transactions if each.name == name and each.offset is not None]
        by_offset = {each.offset: each for each in of_it}
        last = max((each.offset or 0 for each in of_it if each.outcome is True), default=-1)
        found = by_offset.get(offset)
        if offset >= 0 and (found is None or found.outcome is False or (found.is_open and not found.may_commit)):
            self.wrong.append(f"the offset {offset} of {name} is of {found}")
        if is_settled and offset < last:
            self.wrong.append(f"the offset of {name} is {offset}, and {last} was committed")
        if is_settled and found is not None and any(value not in values for value in found.values):
            self.wrong.append(f"the offset of {name} is that of {found}, whose records are not read")
        for each in of_it if is_settled else ():
            if (each.offset or 0) > offset and each.values and all(value in values for value in each.values):
                self.wrong.append(f"{each} is read, and the offset of {name} is {offset}")

    async def offsets(self) -> dict[str, int]:
        """The group's stable offsets by producer; those that are not stable are left out."""
        topics = [{"name": TOPIC, "partition_indexes": list(range(len(NAMES)))}]
        groups = [{"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": topics}]
        answer = await self.ask(OFFSET_FETCH, 9, groups=groups, require_stable=True)
        if answer is None or answer.groups[0].error_code or not answer.groups[0].topics:
            return {}
        parts = answer.groups[0].topics[0].partitions
        return {NAMES[each.partition_index]: each.committed_offset for each in parts if each.error_code == 0}


def committed_values(part: Any) -> list[bytes]:
    """The values of a fetched partition without those of aborted transactions, as every client leaves them out."""
    aborted = sorted(part.aborted_transactions or (), key=lambda each: each.first_offset)
    data, values, now_aborted = bytes(part.records or b""), [], set()
    for at, header in split_batches(data):
        while aborted and aborted[0].first_offset <= header.base_offset:
            now_aborted.add(aborted.pop(0).producer_id)
        records = decode_batch(data, at)
        if header.is_control:
            if records and control_type(records[0].key) == ControlType.ABORT:
                now_aborted.discard(header.producer_id)
        elif header.producer_id not in now_aborted:
            values += [record.value or b"" for record in records]
    return values


async def live(life: Life) -> None:
    """Steps with faults, then quiet."""
    await life.start()
    for _ in range(STEPS):
        await life.step()
    await life.settle()
    await life.end()


async def live_to_append(life: Life, append: int, *, torn: bool) -> bool:
    """One transaction, whose process is killed at an append (by number, from 0); whether there was such an append."""
    await life.start()
    life.say("append", append)
    left = [append]
    fail = life.files.take_write_failure

    def take() -> int | None:
        left[0] -= 1
        return (30 if torn else 0) if left[0] == -1 else fail()

    producer = await life.init("x")
    assert producer is not None
    producer.bumps = life.random.random() < 0.5
    life.files.take_write_failure = take  # type: ignore[method-assign]
    for did in (life.produce, life.commit_offset, life.produce):
        if not producer.must_begin_again:
            producer.must_begin_again = not await did(producer)
        if left[0] < 0:
            break
    if left[0] >= 0 and not producer.must_begin_again:
        await life.finish(producer, commits=life.random.random() < 0.7)
        await asyncio.sleep(1)
    life.files.take_write_failure = fail  # type: ignore[method-assign]
    await life.settle()
    await life.end()
    return left[0] < 0


def run_virtually(work: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run in a virtual loop to the end."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.close()


def run_seed(seed: int) -> Life:
    """One life; its `wrong` says what does not hold."""

    async def run(loop: VirtualLoop) -> Life:
        life = Life(seed, loop)
        try:
            await live(life)
        except StorageError as error:
            life.wrong.append(repr(error))
        return life

    return run_virtually(run)


def appends_of_a_life(seed: int, *, torn: bool) -> Iterator[Life]:
    """Lives that end at the first append of a transaction, at the second, and so on, until one comes through."""

    async def run(loop: VirtualLoop, append: int) -> tuple[Life, bool]:
        life = Life(seed, loop)
        return life, await live_to_append(life, append, torn=torn)

    append, was_killed = 0, True
    while was_killed:
        life, was_killed = run_virtually(lambda loop, append=append: run(loop, append))  # type: ignore[misc]
        append += 1
        yield life


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which kind of lives, and what is broken on purpose."""
    parser.add_argument("--appends", action="store_true", help="kill the process at every append of one transaction")
    parser.add_argument("--broken", choices=tuple(BROKEN), help="break the coordinators: the oracle must find it")
    add_seed_option(parser, "0-99", "a life each")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run each seed; say what one alone did."""
    logging.disable()  # a broker says a lot about disks that fail
    wrong: list[str] = []
    broken = BROKEN[options.broken] if options.broken else nullcontext
    for seed in options.seed:
        with broken():
            lives = [life for torn in (False, True) for life in appends_of_a_life(seed, torn=torn)] if options.appends else [run_seed(seed)]
        found = [f"seed {seed}: {text}" for life in lives for text in life.wrong]
        if len(options.seed) == 1:
            for line in (line for life in lives for line in life.trace):
                results.say(line)
        if found:
            results.say(f"repeat it: {results.repetition(seed)}")
        wrong += found
    results.verdict(f"{len(options.seed)} seeds", Outcome(wrong))
