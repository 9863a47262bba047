"""Requests of a transactional producer, one by one, and what a broker said to them.

Producer ids differ, so answers say which of a script's ids they name. A request that meets the end of a transaction under way is repeated.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until

_AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class Script:
    """Requests of producers to one broker; `said` has what was answered."""

    def __init__(self, client: RawClient, topic: str, name: str) -> None:
        self.client, self.topic, self.name = client, topic, name
        self.said: list[tuple[Any, ...]] = []
        self.timestamp_ms = 1_000
        """That of the records; a broker soon forgets a producer whose records are of 1970."""
        self.ids: list[int] = [-1]
        self.id = self.epoch = -1
        self.sequences: defaultdict[int, int] = defaultdict(int)
        self.patience_s = 60.0
        """How long an end may be under way before that is the answer."""

    def shown(self, producer_id: int) -> int:
        """The number of a producer id in this script."""
        if producer_id not in self.ids:
            self.ids.append(producer_id)
        return self.ids.index(producer_id)

    def settled(self, what: str, ask: Callable[[], int]) -> int:
        """An error code once nothing is under way any more."""
        deadline_s = time.monotonic() + self.patience_s
        return wait_until(
            lambda: [code for code in [ask()] if code not in _AGAIN or time.monotonic() > deadline_s], f"an answer to {what}", seconds=90
        )[0]

    def continue_as(self, producer_id: int, epoch: int) -> None:
        """The next requests are of this producer, whose sequences begin again."""
        self.id, self.epoch = producer_id, epoch
        self.sequences.clear()

    def init(self, version: int = 4, name: str | None = None, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1) -> None:
        answers: list[Any] = []
        fields = {"transactional_id": self.name if name is None else name, "transaction_timeout": timeout_ms}

        def ask() -> int:
            answers.append(self.client.call(ApiKey.INIT_PRODUCER_ID, version, **fields, producer_id=producer_id, producer_epoch=epoch))
            return int(answers[-1].error_code)

        code = self.settled("InitProducerId", ask)
        answer = answers[-1]
        self.said.append(("init", code, self.shown(answer.producer_id), answer.producer_epoch))
        if code == 0:
            self.continue_as(answer.producer_id, answer.producer_epoch)

    def add(
        self,
        version: int = 3,
        topic: str | None = None,
        partition: int = 0,
        name: str | None = None,
        id_delta: int = 0,
        epoch_delta: int = 0,
    ) -> None:
        fields = {
            "v3_and_below_transactional_id": self.name if name is None else name,
            "v3_and_below_producer_id": self.id + id_delta,
            "v3_and_below_producer_epoch": self.epoch + epoch_delta,
            "v3_and_below_topics": [{"name": topic or self.topic, "partitions": [partition]}, {"name": self.topic, "partitions": [1]}],
        }

        codes: list[int] = []

        def ask() -> int:
            answer = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, **fields)
            codes[:] = self._codes(answer.results_by_topic_v3_and_below)
            return codes[0]

        self.settled("AddPartitionsToTxn", ask)
        self.said.append(("add", *codes))

    def _codes(self, topics: Sequence[Any]) -> list[int]:
        """Those of the script's own topic last, by partition: Apache Kafka's are in the order of a hash map."""
        found = [
            (each.name == self.topic, part.partition_index, int(part.partition_error_code))
            for each in topics
            for part in each.results_by_partition
        ]
        return [code for *_, code in sorted(found)]

    def add_offsets(self, version: int = 3, group: str = "g") -> None:
        fields = {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch, "group_id": group}
        code = self.settled("AddOffsetsToTxn", lambda: int(self.client.call(ApiKey.ADD_OFFSETS_TO_TXN, version, **fields).error_code))
        self.said.append(("add offsets", code))

    def end(self, *, commits: bool = True, version: int = 4, behind: int = 0, id_delta: int = 0, name: str | None = None) -> None:
        answers: list[Any] = []

        def ask() -> int:
            fields = {"transactional_id": self.name if name is None else name, "committed": commits}
            answers.append(
                self.client.call(ApiKey.END_TXN, version, **fields, producer_id=self.id + id_delta, producer_epoch=self.epoch - behind)
            )
            return int(answers[-1].error_code)

        code = self.settled("EndTxn", ask)
        answer = answers[-1]
        if version < 5:
            self.said.append(("end", code))
            return
        self.said.append(("end", code, self.shown(answer.producer_id), answer.producer_epoch))
        if code == 0:
            self.continue_as(answer.producer_id, answer.producer_epoch)

    def produce(
        self,
        version: int = 9,
        epoch_delta: int = 0,
        partition: int = 0,
        name: str | None = "",
        sequence_delta: int = 0,
        is_transactional: bool = True,
    ) -> None:
        batch = encode_batch(
            [Record(0, self.timestamp_ms, None, b"x")],
            producer_id=self.id,
            producer_epoch=self.epoch + epoch_delta,
            base_sequence=max(0, self.sequences[partition] + sequence_delta),
            is_transactional=is_transactional,
        )
        topic = {"name": self.topic, "partition_data": [{"index": partition, "records": bytes(batch)}]}
        fields = {"transactional_id": self.name if name == "" else name, "acks": -1, "timeout": 10_000}

        def ask() -> int:
            answer = self.client.call(ApiKey.PRODUCE, version, **fields, topic_data=[topic])
            return int(answer.responses[0].partition_responses[0].error_code)

        code = self.settled("Produce", lambda: 0 if (code := ask()) == 0 else code)
        self.said.append(("produce", code))
        self.sequences[partition] += code == 0 and sequence_delta == 0

    def commit_offsets(self, version: int = 3, group: str = "g", generation: int = -1, member: str = "", epoch_delta: int = 0) -> None:
        asked = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": "m"}
        fields = {
            "transactional_id": self.name,
            "group_id": group,
            "producer_id": self.id,
            "producer_epoch": self.epoch + epoch_delta,
            "generation_id": generation,
            "member_id": member,
            "group_instance_id": None,
            "topics": [{"name": self.topic, "partitions": [asked]}, {"name": "no-such-topic", "partitions": [asked]}],
        }
        codes: list[int] = []

        def ask() -> int:
            answer = self.client.call(ApiKey.TXN_OFFSET_COMMIT, version, **fields)
            topics = sorted(answer.topics, key=lambda each: each.name != self.topic)  # Kafka names first what it refused
            codes[:] = [int(part.error_code) for each in topics for part in each.partitions]
            return codes[0]

        self.settled("TxnOffsetCommit", ask)
        self.said.append(("commit offsets", *codes))

    def fetch_offsets(self, *, stable: bool, group: str = "g") -> None:
        groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": [{"name": self.topic, "partition_indexes": [0]}]}]
        (answer,) = self.client.call(ApiKey.OFFSET_FETCH, 9, groups=groups, require_stable=stable).groups
        if not answer.topics:
            self.said.append(("offsets", int(answer.error_code)))
            return
        (part,) = answer.topics[0].partitions
        self.said.append(("offsets", int(part.error_code), part.committed_offset, part.metadata))

    def fetch_offsets_when_stable(self, group: str = "g") -> None:
        """The marker is applied a moment after the answer to EndTxn."""

        def is_stable() -> bool:
            self.fetch_offsets(stable=True, group=group)
            return self.said[-1][1] == 0 or self.said.pop() is None

        wait_until(is_stable, lambda: f"the offset's transaction to end; the last answers are {self.said[-3:]}")

    def describe(self) -> None:
        deadline_s = time.monotonic() + self.patience_s

        def ask() -> Any:
            (state,) = self.client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name]).transaction_states
            return None if state.transaction_state.startswith("Prepare") and time.monotonic() < deadline_s else state

        try:
            state = wait_until(ask, "a state", seconds=90)
        except PeerError:  # kio reads no time before 1970, as the start of what has not begun is
            self.list()
            return
        topics = sorted((each.topic == self.topic, tuple(sorted(each.partitions))) for each in state.topics)
        self.said.append(
            (
                "described",
                int(state.error_code),
                state.transaction_state,
                self.shown(state.producer_id if state.transaction_state else -1),
                topics,
            )
        )
        self.said.append((state.transaction_timeout, state.producer_epoch, _is_time(state.transaction_start_time)))

    def list(self, **filters: Any) -> None:
        fields = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": None} | filters
        answer = self.client.call(ApiKey.LIST_TRANSACTIONS, 2, **fields)
        states = [each.transaction_state for each in answer.transaction_states if each.transactional_id == self.name]
        self.said.append(("listed", int(answer.error_code), tuple(answer.unknown_state_filters), states))

    def ask_as_broker(self, version: int, *, verifies: bool, partitions: Sequence[int], epoch_delta: int = 0, id_delta: int = 0) -> None:
        """AddPartitionsToTxn as brokers send it (v4+), which adds or asks."""
        named = {"producer_id": self.id + id_delta, "producer_epoch": self.epoch + epoch_delta, "verify_only": verifies}
        topics = [{"name": self.topic, "partitions": partitions}]
        codes: list[int] = []

        def ask() -> int:
            transactions = [{"transactional_id": self.name, "topics": topics, **named}]
            (answer,) = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=transactions).results_by_transaction
            codes[:] = self._codes(answer.topic_results)
            return codes[0]

        self.settled("AddPartitionsToTxn", ask)
        self.said.append(("asked as a broker", *codes))

    def write_marker(
        self, version: int, *, commits: bool, epoch_delta: int = 0, coordinator_epoch: int = 0, partition: int = 0, bumped: int = 0
    ) -> None:
        """WriteTxnMarkers as an administrator sends it. `bumped`: the transaction version that the marker names (v2+)."""
        marker = {
            "producer_id": self.id,
            "producer_epoch": self.epoch + epoch_delta,
            "transaction_result": commits,
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": bumped,
            "topics": [{"name": self.topic, "partition_indexes": [partition]}],
        }
        answer = self.client.call(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
        self.said.append(("marker", *[int(part.error_code) for part in answer.markers[0].topics[0].partitions]))

    def commit_plainly(self, offset: int, group: str) -> None:
        """OffsetCommit of a consumer that is no member, without a transaction."""
        asked = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": "plain"}
        fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        answer = self.client.call(ApiKey.OFFSET_COMMIT, 8, **fields, topics=[{"name": self.topic, "partitions": [asked]}])
        self.said.append(("plain commit", int(answer.topics[0].partitions[0].error_code)))

    def delete_offset(self, group: str) -> None:
        """OffsetDelete of what the group has."""
        topics = [{"name": self.topic, "partitions": [{"partition_index": 0}]}]
        answer = self.client.call(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)
        self.said.append(
            ("deleted", int(answer.error_code), *[int(each.error_code) for topic in answer.topics for each in topic.partitions])
        )

    def describe_producers(self) -> None:
        def ask() -> Any:
            topics = [{"name": self.topic, "partition_indexes": [0]}]
            (part,) = self.client.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics[0].partitions
            return [each for each in part.active_producers if each.producer_id == self.id]

        found = [
            (each.producer_epoch, each.last_sequence, each.coordinator_epoch >= 0, each.current_txn_start_offset >= 0) for each in ask()
        ]
        self.said.append(("producers", found))


def _is_time(value: Any) -> bool:
    return value is not None and getattr(value, "year", 0) > 2000
