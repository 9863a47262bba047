"""Fetch sessions in every version, with both brokers: the same requests, and the same partitions are named with the same answers."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey

FIRST_VERSION_WITH_TOPIC_IDS = 13
UNKNOWN_ID = uuid.UUID(int=12345)

pytestmark = pytest.mark.kafka


def write(talk: Any, topic: str, partition: int, *sizes: int) -> None:
    """One batch of one record for each size."""
    for size in sizes:
        batch = encode_batch([Record(0, 1_000_000, None, b"x" * size)])
        partition_data = [{"index": partition, "records": bytes(batch)}]
        answer = talk.quietly(ApiKey.PRODUCE, 9, acks=-1, timeout=5000, topic_data=[{"name": topic, "partition_data": partition_data}])
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer


class Session:
    """One reader of one topic, by its name or (from version 13 on) by its id."""

    def __init__(self, talk: Any, topic: str, topic_id: uuid.UUID) -> None:
        self.talk = talk
        self.naming = {"topic": topic, "topic_id": topic_id}
        self.session_id = self.epoch = 0

    def ask(self, offsets: dict[int, int] | None = None, forgotten: Sequence[int] = (), *, naming: Any = None, **values: Any) -> Any:
        """Names `offsets` by partition; what the answer named is compared, and also its order."""
        options = {"partition_max_bytes": 1_000_000, "current_leader_epoch": -1, "last_fetched_epoch": -1} | values.pop("part", {})
        parts = [{"partition": number, "fetch_offset": offset} | options for number, offset in (offsets or {}).items()]
        named = naming or self.naming
        base = {
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "replica_id": -1,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [named | {"partitions": parts}] if parts else [],
            "forgotten_topics_data": [named | {"partitions": list(forgotten)}] if forgotten else [],
        }
        answer = self.talk.ask(ApiKey.FETCH, **(base | values))
        order = [(part.partition_index, bool(part.records)) for topic in answer.responses for part in topic.partitions]
        self.talk.answers.append((len(answer.responses), order))
        if getattr(answer, "error_code", 0) == 0:
            self.session_id = getattr(answer, "session_id", 0)
            self.epoch += 1
        return answer


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_names_what_is_new(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        session = Session(talk, topic, talk.make_topic(topic, 4))
        write(talk, topic, 0, 10, 20)
        session.ask({0: 0, 1: 0, 2: 0})
        session.ask()
        write(talk, topic, 1, 30)
        session.ask()
        session.ask({0: 2})
        session.ask({1: 1})
        session.ask()
        write(talk, topic, 1, 30)
        write(talk, topic, 2, 30)
        session.ask(forgotten=[1])
        session.ask({1: 1}, forgotten=[2])
        session.ask({3: 0, 0: 1})
        session.ask({0: 9})
        session.ask()
        session.ask(isolation_level=1)
        session.ask({0: 2, 1: 2}, isolation_level=1)
        session.ask(isolation_level=1)
        records = [{"partition_index": 0, "offset": 1}, {"partition_index": 1, "offset": -1}]
        talk.quietly(ApiKey.DELETE_RECORDS, 1, timeout=5000, topics=[{"name": topic, "partitions": records}])
        session.ask()
        session.ask()
        session.ask({0: 0})
        session.ask(max_wait=30, min_bytes=100)
        if version >= 9:
            session.ask({0: 2}, part={"current_leader_epoch": 0})
            session.ask({0: 2}, part={"current_leader_epoch": 9})
            session.ask()
        session.ask(session_epoch=99)
        session.ask(forgotten=[0, 1, 3])
        session.ask()

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(7, 19))
def test_sessions_that_end_or_were_never_there(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        topic_id = talk.make_topic(topic, 2)
        session = Session(talk, topic, topic_id)
        session.ask({0: 0}, session_epoch=-1)
        session.epoch = 0
        session.ask({0: 0})
        first = session.session_id
        session.ask(session_epoch=5)
        session.ask(session_epoch=-2)
        session.ask(session_epoch=0)
        session.ask({0: 0, 1: 0}, session_epoch=0)
        session.ask(session_id=first, session_epoch=1)
        session.ask({1: 0}, session_epoch=-1)
        session.ask(session_id=session.session_id or 7, session_epoch=1)
        empty = Session(talk, topic, topic_id)
        empty.ask()
        empty.ask()
        empty.ask()

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_reads_partitions_in_turn(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic, other = talk.name("topic"), talk.name("other")
        session = Session(talk, topic, talk.make_topic(topic, 3))
        naming = {"topic": other, "topic_id": talk.make_topic(other, 2)}
        for number in (0, 2):
            write(talk, topic, number, 100)
        write(talk, other, 1, 100)
        session.ask({2: 0, 1: 0, 0: 0}, max_bytes=1)
        session.ask({0: 0, 1: 0}, naming=naming, max_bytes=1)
        for _ in range(4):
            session.ask(max_bytes=1)
        write(talk, topic, 1, 100)
        for _ in range(5):
            session.ask(max_bytes=1)
        session.ask(max_bytes=100_000)
        session.ask(max_bytes=100_000)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(7, 19))
@pytest.mark.parametrize("is_topic", [False, True])
def test_what_is_not_there(same_answers: Any, version: int, is_topic: bool) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        session = Session(talk, topic, talk.make_topic(topic))
        # One at a time: in which order Apache Kafka names several of them is its hash table's.
        naming, number = ({"topic": talk.name("nowhere"), "topic_id": UNKNOWN_ID}, 0) if is_topic else (session.naming, 7)
        write(talk, topic, 0, 10)
        session.ask({0: 0})
        session.ask({number: 0}, naming=naming)
        session.ask({0: 1})
        session.ask()
        session.ask(max_wait=30)
        session.ask(isolation_level=1)
        session.ask({0: -1}, isolation_level=1)
        session.ask(forgotten=[number], naming=naming)
        session.ask({0: 1})
        session.ask({number: 0}, naming=naming, session_epoch=-1)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(7, 19))
def test_topics_that_go_and_come_again(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic, other = talk.name("topic"), talk.name("other")
        session = Session(talk, topic, talk.make_topic(topic))
        talk.make_topic(other)
        session.ask({0: 0})
        talk.quietly(ApiKey.DELETE_TOPICS, 5, timeout=5000, topic_names=[topic])
        asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        talk.until(
            lambda: talk.quietly(ApiKey.METADATA, 12, **asked).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "the topic to be gone",
        )
        session.ask()
        session.ask()
        talk.make_topic(topic)
        session.ask()
        session.ask()
        session.ask({0: 0})
        session.ask({0: 0}, session_epoch=-1)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(7, 19))
def test_names_and_ids_do_not_mix(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        session = Session(talk, topic, talk.make_topic(topic))
        session.ask({0: 0})
        other_kind = 12 if version >= FIRST_VERSION_WITH_TOPIC_IDS else FIRST_VERSION_WITH_TOPIC_IDS
        values = {"max_wait": 0, "max_bytes": 1000, "replica_id": -1, "session_id": session.session_id, "session_epoch": session.epoch}
        talk.ask(ApiKey.FETCH, other_kind, topics=[], **values)
        session.ask()

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(12, 19))
def test_the_epoch_of_the_last_record(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        session = Session(talk, topic, talk.make_topic(topic, 2))
        write(talk, topic, 0, 10, 20, 30)
        session.epoch = -1
        for epoch in (0, 1, 5):
            for offset in (0, 2, 3, 4):
                session.ask({0: offset}, part={"last_fetched_epoch": epoch}, session_epoch=-1, session_id=0)
        session.ask({1: 0}, part={"last_fetched_epoch": 0}, session_epoch=-1, session_id=0)
        records = [{"partition_index": 0, "offset": 2}]
        talk.quietly(ApiKey.DELETE_RECORDS, 1, timeout=5000, topics=[{"name": topic, "partitions": records}])
        session.ask({0: 1}, part={"last_fetched_epoch": 0}, session_epoch=-1, session_id=0)
        session.ask({0: 2}, part={"last_fetched_epoch": 0}, session_epoch=-1, session_id=0)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(4, 19))
def test_committed_reads_without_transactions(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        session = Session(talk, topic, talk.make_topic(topic, 2))
        write(talk, topic, 0, 10, 20)
        for level in (0, 1):
            for asked in ({0: 0, 1: 0}, {0: 2}, {0: 3}, {0: 1, 5: 0}):
                session.ask(asked, session_epoch=-1, session_id=0, isolation_level=level)

    same_answers(conversation, version)
