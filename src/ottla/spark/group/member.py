"""A streaming query as a member of its group: its consumer, where partitions continue, and leaving when the planner is killed.

A thread polls Ottla's consumer, and the planner asks for partitions and reports batches. The consumer reads nothing: all its partitions
are paused. Its heartbeats and polls keep the membership alive while a batch runs. A revocation waits in its callback until the batch in
flight is processed and committed; what it waits at most is max.poll.interval.ms, when the coordinator continues without the member. So a
partition that is committed is owned: what is committed carries the generation, and the next generation begins only behind the callback.
Sources: KIP-62, KIP-429.

A query owns a partition from an assignment to the revocation or loss. It continues at the group's committed offset, because another member
may have progressed in between. The exception is what the query itself has processed but could not commit: it is in the query's checkpoint
(and in its table), and is not read again.

Spark ends the process of a query's planner with SIGKILL, also when the query is stopped. The group would wait for the member until its
session expires, and its partitions would not be read so long. So a small process of its own reads the member's id from a pipe. When the
pipe ends, the planner has ended, and the process sends LeaveGroup.
"""

import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException, WakeupException
from ottla.client.consumer.message import TopicPartition as Place
from ottla.client.consumer.message import key, keys
from ottla.protocol.model import TopicPartition


class Processed(NamedTuple):
    """The last batch of a query in a partition, which is processed: it ended at `end`.

    `committed`: what the group had committed when the batch was planned, as far as the query knew; the start of the batch where it had
    nothing. The group's offset lies between the two if the query was the last to progress.
    """

    committed: int
    end: int


@dataclass(slots=True, eq=False)
class Owned:
    """One assignment of a partition: the next offset to plan, None before it is known, and the group's offset as far as it is known.

    The planner alone changes it. When the partition is assigned again after a revocation or loss, that is another object.
    """

    position: int | None = None
    committed: int | None = None


def resume_offset(processed: Processed | None, committed: int | None, otherwise: int) -> int:
    """Where a query continues a partition that it has got. `committed`: the group's offset, None: there is none; then `otherwise`.

    An offset outside of what the query itself has processed is that of another member, or was set by an administrator.
    """
    if processed is None:
        return otherwise if committed is None else committed
    is_own = committed is None or processed.committed <= committed <= processed.end
    return processed.end if is_own else committed  # type: ignore[return-value]


class Progress:
    """The partitions of one query, and what it has processed.

    `assigned` and `given_up` belong to the thread that polls, all else to the planner; `owned` and `due` need the lock between the two.
    """

    def __init__(self) -> None:
        self._owned: dict[TopicPartition, Owned] = {}
        self._in_flight: dict[TopicPartition, Processed] = {}
        self._processed: dict[TopicPartition, Processed] = {}

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """The group gives these partitions to the query."""
        self._owned.update({partition: Owned() for partition in partitions})

    def given_up(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions may be another member's from now on: nothing is committed for them any more."""
        for partition in partitions:
            self._owned.pop(partition, None)

    def owned(self) -> dict[TopicPartition, Owned]:
        """Everything that is owned now."""
        return dict(self._owned)

    def restore(self, processed: Mapping[TopicPartition, Processed]) -> None:
        """What an earlier run of the query has processed."""
        self._processed = dict(processed)

    def resume(self, partition: TopicPartition, owned: Owned, committed: int | None, otherwise: int) -> None:
        """Set where the query continues a partition that it has got: see `resume_offset`."""
        owned.position = resume_offset(self._processed.get(partition), committed, otherwise)
        owned.committed = committed

    def planned(self, batch: Mapping[TopicPartition, Processed], owned: Mapping[TopicPartition, Owned]) -> None:
        """A batch of the `owned` is planned. It is processed also where a partition is lost meanwhile, but then it is never committed."""
        self._in_flight.update(batch)
        for partition, processed in batch.items():
            owned[partition].position = processed.end

    def not_run(self) -> None:
        """What was planned was not processed: everything that is owned continues where the group is."""
        self._in_flight.clear()
        for owned in self.owned().values():
            owned.position = None

    def batch_done(self) -> None:
        """What was planned is durably processed."""
        self._processed.update(self._in_flight)
        self._in_flight.clear()

    def due(self) -> dict[TopicPartition, Owned]:
        """Those whose position the group does not have. All that was planned must be processed."""
        return {partition: item for partition, item in self._owned.items() if item.position not in (None, item.committed)}


TIMEOUT_MS: Final = 5_000
REASON: Final = "the streaming query has ended"
_PROPERTIES: Final = "properties"
_MEMBER_ID: Final = "member_id"
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from ottla.spark.group.member import main; main(sys.stdin)"

log = logging.getLogger(__name__)


class Departure:
    """The process, as the planner uses it. `properties`: the consumer's; they reach the process by the pipe alone."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        command = [sys.executable, "-c", _PROGRAM.format(path=sys.path)]
        # A session of its own: what ends the driver from the terminal does not end it.
        self._process = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, start_new_session=True)
        self._send({_PROPERTIES: dict(properties)})

    def joined(self, member_id: str) -> None:
        """The query is this member now."""
        self._send({_MEMBER_ID: member_id})

    def close(self) -> None:
        """The query has left the group by itself."""
        self.joined("")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _send(self, value: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value).encode() + b"\n")
        except BrokenPipeError:
            log.warning(
                "the process that leaves the group for a query that is killed has ended: this one would stay until its session expires"
            )


def main(lines: Iterable[str]) -> None:
    """Read until the planner ends, then leave its group, unless it has done so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    properties: dict[str, str] = {}
    member_id = ""
    for line in lines:
        if line.endswith("\n"):  # otherwise it was cut off
            value = json.loads(line)
            properties = value.get(_PROPERTIES, properties)
            member_id = value.get(_MEMBER_ID, member_id)
    if member_id:
        leave(properties, member_id)


def leave(properties: Mapping[str, str], member_id: str) -> None:
    """Send LeaveGroup; what fails is logged, and then the session expires."""
    from ottla.client.admin.client import AdminClient
    from ottla.client.errors import ClientError
    from ottla.client.settings import parse_client_settings
    from ottla.config.client_properties import OWN
    from ottla.protocol.errors import PeerError

    group = properties["group.id"]
    settings = parse_client_settings({name: text for name, text in properties.items() if name not in OWN})
    try:
        with AdminClient(settings, timeout_ms=TIMEOUT_MS) as admin:
            failure = admin.remove_member(group, member_id, REASON)
    except (ClientError, PeerError, OSError) as error:
        log.warning("member %s of the group %s did not leave: %s", member_id, group, error)
        return
    if failure is not None:
        log.warning("member %s of the group %s did not leave: %s", member_id, group, failure.message or failure.code.name)


GROUP_MEMBER: Final = "#group_member"
"""The key of `metrics` in the JSON of a query's progress, beside the topics. It is not a valid topic name."""
COMMIT_S_MAX: Final = 1.5
"""The timeout of a commit: a trigger waits for it, and a dead coordinator must not stall it."""
BACKOFF_S: Final = 1.0
BACKOFF_S_MAX: Final = 60.0
POLL_S: Final = 0.5
WARN_AT: Final = 0.8
"""The part of max.poll.interval.ms after which a batch is about to outlast it."""
WARN_OF_WAITING_S: Final = 30.0
"""How long a query may be without a decision of its group before it says so."""


class GroupMemberError(Exception):
    """The query cannot be a member of its group (any more)."""


class GroupMember:
    """The membership of one query. `properties`: a consumer's, by Kafka's names; `topics`: names, or a pattern that begins with "^".

    `progress` is the planner's, apart from assignments. `departure` leaves the group should this process be killed. `consumer` and `clock`
    (seconds) are for tests. Raises KafkaException for wrong properties.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        topics: Sequence[str],
        *,
        departure: Departure | None = None,
        consumer: Callable[[Mapping[str, Any]], Consumer] = Consumer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group = properties["group.id"]
        self.progress = Progress()
        self._departure = departure
        self._poll_interval_s = int(properties["max.poll.interval.ms"]) / 1000
        self._clock = clock
        self._condition = threading.Condition()
        self._is_closing = self._is_revoking = self._is_assigned = self._is_warned = False
        self._batch_began_s: float | None = None
        self._stopped_s: float | None = None
        self._stopped_total_s = 0.0
        self._waits_since_s: float | None = None
        self._is_waiting_reported = False
        self._retry_at_s = 0.0
        self._failures_in_row = 0
        self._failure: Exception | None = None
        self._counts = {"commits": 0, "failures": 0}
        self._last_error = ""
        self._consumer = consumer({**properties, "enable.auto.commit": "false"})
        self._consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._thread = threading.Thread(target=self._run, name="ottla-group-member", daemon=True)
        self._thread.start()

    # The planner.

    def batch_done(self, *, is_processed: bool = True) -> None:
        """All that was planned is durably processed (or was not run): commit it, and let a revocation through that has waited for it.

        Takes at most COMMIT_S_MAX. A commit that fails is repeated with the next batch. Raises GroupMemberError.
        """
        with self._condition:
            self._raise_failure()
            if not is_processed:
                self.progress.not_run()
            self.progress.batch_done()
            self._commit_due()
            self._end_batch()

    def begin_batch(self, timeout_s: float, *, patience_s: float = 0.0) -> dict[TopicPartition, Owned] | None:
        """What the query owns, once the group has decided it; None if it has not within `timeout_s`. Raises GroupMemberError.

        `patience_s`: how long to wait for a first partition: a new member of a cooperative group gets none before others have given some
        up. Revocations wait from here until `batch_done` or `no_batch`.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._failure is not None or self._is_settled, timeout_s)
            self._condition.wait_for(lambda: self._failure is not None or bool(self.progress.owned()), patience_s)
            self._raise_failure()
            if not self._is_settled:
                self._warn_of_waiting()
                return None
            self._waits_since_s, self._is_waiting_reported = None, False
            self._batch_began_s, self._is_warned = self._clock(), False
            return self.progress.owned()

    def no_batch(self) -> None:
        """There is nothing to process after all: let revocations through."""
        with self._condition:
            self._end_batch()

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets, of those that have one. Raises GroupMemberError."""
        if not partitions:
            return {}
        try:
            found = self._consumer.committed([Place(*partition) for partition in partitions])
        except KafkaException as error:
            raise GroupMemberError(f"the offsets of the group {self.group}: {_text(error)}") from error
        return {key(each): each.offset for each in found if each.offset >= 0}

    def identity(self) -> tuple[int, str]:
        """The generation, and the member's id; -1 and "" outside of the group."""
        return self._consumer.generation_id(), self._consumer.memberid() or ""

    def metrics(self) -> dict[str, Any]:
        """What the membership is and has cost, for the query's progress: see docs/spark.md."""
        metrics = self._consumer.metrics()
        generation, member_id = self.identity()
        with self._condition:
            owned: dict[str, list[int]] = {}
            for topic, partition in sorted(self.progress.owned()):
                owned.setdefault(topic, []).append(partition)
            stopped_s = self._stopped_total_s + (0.0 if self._stopped_s is None else self._clock() - self._stopped_s)
            return {
                "group": self.group,
                "member_id": member_id,
                "generation": generation,
                "owned": owned,
                "rebalances": int(metrics["rebalance-total"]),
                "rebalance_ms": round(metrics["rebalance-latency-total"]),
                "stopped_ms": round(stopped_s * 1000),
                **self._counts,
                "last_error": self._last_error,
            }

    def close(self) -> None:
        """Leave the group (a static member stays in it until its session expires) and close the connections."""
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._consumer.wakeup()
        self._thread.join()
        self._consumer.close()
        if self._departure is not None:
            self._departure.close()

    # What both threads use, with the condition held.

    @property
    def _is_settled(self) -> bool:
        return not self._is_revoking and (self._is_assigned or bool(self.progress.owned()))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise GroupMemberError(f"the query is no member of the group {self.group} any more: {_text(self._failure)}") from self._failure

    def _warn_of_waiting(self) -> None:
        if self._waits_since_s is None:
            self._waits_since_s = self._clock()
        waited_s = self._clock() - self._waits_since_s
        if waited_s < WARN_OF_WAITING_S or self._is_waiting_reported:
            return
        self._is_waiting_reported = True
        log.warning(
            "the query has had no partitions for %.0f s: the coordinator of the group %s does not answer, or a rebalance waits for another"
            " member. `ottla groups --describe --group %s --members` shows which ones there are, and `--state` what the group waits for",
            waited_s,
            self.group,
            self.group,
        )

    def _end_batch(self) -> None:
        self._batch_began_s = None
        self._condition.notify_all()

    def _commit_due(self) -> None:
        due = self.progress.due()
        now_s = self._clock()
        if not due or (now_s < self._retry_at_s and not self._is_revoking):
            return
        wanted = [Place(*partition, owned.position) for partition, owned in sorted(due.items()) if owned.position is not None]
        try:
            results = self._consumer.commit(offsets=wanted, asynchronous=False, timeout=COMMIT_S_MAX)
        except KafkaException as error:
            self._commit_failed(error.args[0])
            return
        errors = [result.error for result in results or () if result.error is not None]
        for result in results or ():
            if result.error is None:
                due[key(result)].committed = result.offset
        if errors:
            self._commit_failed(errors[0])
            return
        if self._last_error:
            log.warning("offsets are committed to the group %s again", self.group)
        self._counts["commits"] += 1
        self._failures_in_row, self._retry_at_s, self._last_error = 0, 0.0, ""

    def _commit_failed(self, error: KafkaError) -> None:
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            return  # it follows when the rebalance is over, or another member reads the records again
        self._counts["failures"] += 1
        self._retry_at_s = self._clock() + min(BACKOFF_S_MAX, BACKOFF_S * 2 ** min(self._failures_in_row, 10))
        self._failures_in_row += 1
        if error.str() != self._last_error:
            log.warning("offsets were not committed to the group %s; the query continues: %s", self.group, error.str())
        self._last_error = error.str()

    # The thread.

    def _run(self) -> None:
        try:
            while not self._is_closing:
                message = self._consumer.poll(POLL_S)
                error = None if message is None else message.error()
                if error is not None:
                    log.warning("group %s: %s", self.group, error.str())
                self._warn_of_long_batch()
        except WakeupException:
            return
        except Exception as error:  # noqa: BLE001 - the planner raises it
            with self._condition:
                self._failure = error
                self._condition.notify_all()

    def _warn_of_long_batch(self) -> None:
        with self._condition:
            began_s = self._batch_began_s
            if began_s is None or self._is_warned or self._clock() - began_s < WARN_AT * self._poll_interval_s:
                return
            self._is_warned = True
        log.warning(
            "a batch has run for %.0f s, and kafka.max.poll.interval.ms is %.0f s: a rebalance waits no longer than that for the query, and"
            " other members then read this batch again. Raise kafka.max.poll.interval.ms above the time of a batch and of the trigger, or"
            " make batches smaller with maxOffsetsPerTrigger",
            self._clock() - began_s,
            self._poll_interval_s,
        )

    def _assigned(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        consumer.pause(partitions)
        if self._departure is not None:
            self._departure.joined(consumer.memberid() or "")
        with self._condition:
            self.progress.assigned(keys(partitions))
            self._is_assigned = True
            if self._stopped_s is not None:
                self._stopped_total_s += self._clock() - self._stopped_s
                self._stopped_s = None
            self._condition.notify_all()
        log.info("group %s: %d partitions were assigned", self.group, len(partitions))

    def _revoked(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        ends_s = self._clock() + self._poll_interval_s
        with self._condition:
            self._is_revoking = True
            while self._batch_began_s is not None and not self._is_closing and (wait_s := ends_s - self._clock()) > 0:
                self._condition.wait(min(wait_s, POLL_S))
                self._warn_of_long_batch()
            if self._batch_began_s is None:
                self._commit_due()  # what an earlier attempt could not commit
            self._is_revoking = False
            self._give_up(partitions)
        log.info("group %s: %d partitions were given up", self.group, len(partitions))

    def _lost(self, consumer: Consumer, partitions: Sequence[Place]) -> None:
        with self._condition:
            self._give_up(partitions)
        log.warning(
            "group %s: %d partitions were lost, since the group has removed this member: other members read again what is not committed",
            self.group,
            len(partitions),
        )

    def _give_up(self, partitions: Sequence[Place]) -> None:
        self.progress.given_up(keys(partitions))
        if not self.progress.owned():
            self._is_assigned = False
            self._stopped_s = self._clock()
        self._condition.notify_all()


def _text(error: Exception) -> str:
    found = error.args[0] if error.args else error
    return found.str() if isinstance(found, KafkaError) else str(error)
