"""A streaming query as a member of its group: a thread polls Ottla's consumer, and the planner asks for partitions and reports batches.

The consumer reads nothing: all its partitions are paused. Its heartbeats and polls keep the membership alive while a batch runs. A
revocation waits in its callback until the batch in flight is processed and committed; what it waits at most is max.poll.interval.ms, when
the coordinator continues without the member. So a partition that is committed is owned: what is committed carries the generation, and the
next generation begins only behind the callback. Sources: KIP-62, KIP-429.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException, WakeupException
from ottla.client.consumer.topic_partition import TopicPartition as Place
from ottla.client.consumer.topic_partition import key, keys
from ottla.core.model import TopicPartition
from ottla.spark.group.departure import Departure
from ottla.spark.group.progress import Owned, Progress

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

log = logging.getLogger(__name__)


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
            found = self._consumer.committed([Place(*each) for each in partitions])
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
        errors = [each.error for each in results or () if each.error is not None]
        for each in results or ():
            if each.error is None:
                due[key(each)].committed = each.offset
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
