"""Requests of a transactional producer, one by one, and what a broker said to them.

Producer ids differ, so answers say which of a script's ids they name. A request that meets the end of a transaction under way is repeated.
"""

from collections.abc import Callable
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
        self.ids: list[int] = [-1]
        self.id = self.epoch = -1
        self.sequence = 0

    def shown(self, producer_id: int) -> int:
        """The number of a producer id in this script."""
        if producer_id not in self.ids:
            self.ids.append(producer_id)
        return self.ids.index(producer_id)

    def settled(self, what: str, ask: Callable[[], int]) -> int:
        """An error code once nothing is under way any more."""
        return wait_until(lambda: [code for code in [ask()] if code not in _AGAIN], f"an answer to {what}")[0]

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
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

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
            codes[:] = [
                int(part.partition_error_code) for each in answer.results_by_topic_v3_and_below for part in each.results_by_partition
            ]
            return codes[0]

        self.settled("AddPartitionsToTxn", ask)
        self.said.append(("add", *codes))

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
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def produce(self, version: int = 9, epoch_delta: int = 0, partition: int = 0, name: str | None = "") -> None:
        batch = encode_batch(
            [Record(0, 1_000, None, b"x")],
            producer_id=self.id,
            producer_epoch=self.epoch + epoch_delta,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        topic = {"name": self.topic, "partition_data": [{"index": partition, "records": bytes(batch)}]}
        fields = {"transactional_id": self.name if name == "" else name, "acks": -1, "timeout": 10_000}

        def ask() -> int:
            answer = self.client.call(ApiKey.PRODUCE, version, **fields, topic_data=[topic])
            return int(answer.responses[0].partition_responses[0].error_code)

        code = self.settled("Produce", lambda: 0 if (code := ask()) == 0 else code)
        self.said.append(("produce", code))
        self.sequence += code == 0

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
        def ask() -> Any:
            (state,) = self.client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name]).transaction_states
            return None if state.transaction_state.startswith("Prepare") else state

        try:
            state = wait_until(ask, "a state")
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
