"""Fetch sessions against a broker of values (Kafka: FetchSessionHandlerTest)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.fetch.fetch_sessions import EPOCH_MAX, FetchSession, FetchSessions, next_epoch, without_session
from ottla.client.fetch.fetch_values import PartitionFetch, PartitionResponse, SessionFields
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

OK = ErrorCode.NONE


def fetch(partition: int, offset: int = 0, topic_id: str = "id") -> PartitionFetch:
    return PartitionFetch(TopicPartition("t", partition), offset, 3, topic_id)


def got(partition: int, end: int = 5, records: bytes = b"", error: ErrorCode = OK) -> PartitionResponse:
    return PartitionResponse(TopicPartition("t", partition), error, end, end, 0, memoryview(records))


def opened(*fetches: PartitionFetch, session_id: int = 7) -> FetchSession:
    """A session whose first request was answered."""
    session = FetchSession()
    session.request(fetches)
    session.on_response(OK, session_id, [got(each.partition.partition) for each in fetches])
    return session


def test_a_request_without_a_session() -> None:
    assert without_session((fetch(0),)) == SessionFields(0, -1, (fetch(0),), ())


def test_the_first_request_names_all_and_the_next_ones_what_changed() -> None:
    session = FetchSession()
    assert session.request((fetch(0), fetch(1), fetch(2))) == SessionFields(0, 0, (fetch(0), fetch(1), fetch(2)))
    assert len(session.on_response(OK, 7, [got(0), got(1), got(2)])) == 3
    assert session.request((fetch(0), fetch(1, 9), fetch(3))) == SessionFields(7, 1, (fetch(1, 9), fetch(3)), (fetch(2),))
    session.on_response(OK, 7, [got(3)])
    assert session.request((fetch(0), fetch(1, 9), fetch(3))) == SessionFields(7, 2, ())


def test_partitions_that_the_broker_leaves_out_are_as_they_were() -> None:
    session = opened(fetch(0), fetch(1))
    session.request((fetch(0), fetch(1)))
    first = session.on_response(OK, 7, [got(1, 8, b"records")])
    assert first == (got(1, 8, b"records"), got(0))
    session.request((fetch(0), fetch(1, 8)))
    assert session.on_response(OK, 7, []) == (got(0), got(1, 8)), "records come once"


def test_a_partition_with_an_error_is_not_said_to_be_unchanged() -> None:
    session = opened(fetch(0), fetch(1))
    session.request((fetch(0), fetch(1)))
    session.on_response(OK, 7, [got(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)])
    session.request((fetch(0), fetch(1)))
    assert session.on_response(OK, 7, []) == (got(1),)


@pytest.mark.conformance("FetcherTest.testFetchForgetTopicIdWhenUnassigned")
def test_a_partition_that_was_forgotten_is_new_when_it_comes_back() -> None:
    session = opened(fetch(0), fetch(1))
    session.request((fetch(0),))
    session.on_response(OK, 7, [])
    assert session.request((fetch(0), fetch(1))).sent == (fetch(1),)
    assert session.on_response(OK, 7, []) == (got(0),)


@pytest.mark.conformance("FetcherTest.testFetchForgetTopicIdWhenReplaced")
def test_a_topic_that_was_created_again_is_forgotten_and_named() -> None:
    session = opened(fetch(0, topic_id="old"))
    assert session.request((fetch(0, topic_id="new"),)) == SessionFields(7, 1, (fetch(0, topic_id="new"),), (fetch(0, topic_id="old"),))


def test_a_topic_whose_id_becomes_known_is_not_forgotten() -> None:
    session = opened(fetch(0, topic_id=""))
    assert session.request((fetch(0, topic_id="new"),)).forgotten == ()


def test_a_session_that_the_broker_does_not_know() -> None:
    session = opened(fetch(0))
    session.request((fetch(0),))
    refused = got(0, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert session.on_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [refused]) == (refused,)
    assert session.request((fetch(0),)) == SessionFields(0, 0, (fetch(0),))


def test_other_errors_close_the_session_and_begin_another() -> None:
    for error in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
        session = opened(fetch(0))
        session.request((fetch(0),))
        session.on_response(error, 0, [got(0, error=error)])
        assert session.request((fetch(0),)) == SessionFields(7, 0, (fetch(0),))


def test_a_lost_request_closes_the_session_and_begins_another() -> None:
    session = opened(fetch(0))
    session.request((fetch(0, 3),))
    session.on_no_response()
    assert session.request((fetch(0, 3),)) == SessionFields(7, 0, (fetch(0, 3),))


def test_a_broker_that_keeps_no_session_gets_full_requests() -> None:
    session = opened(fetch(0), session_id=0)
    assert not session.is_open
    assert session.request((fetch(0),)) == SessionFields(0, 0, (fetch(0),))
    session.on_response(OK, 7, [got(0)])
    session.request((fetch(0),))
    session.on_response(OK, 0, [])
    assert session.request((fetch(0),)) == SessionFields(0, 0, (fetch(0),)), "the broker has closed it"


def test_a_broker_that_throttles_leaves_out_the_partitions_of_a_full_response() -> None:
    session = FetchSession()
    session.request((fetch(0),))
    assert session.on_response(OK, 0, []) == ()
    assert session.request((fetch(0),)) == SessionFields(0, 0, (fetch(0),))


def test_partitions_that_were_not_requested_end_the_session() -> None:
    session = opened(fetch(0))
    session.request((fetch(0),))
    session.on_response(OK, 7, [got(4)])
    assert session.request((fetch(0),)).epoch == 0


@pytest.mark.conformance("FetcherTest.testFetcherSessionEpochUpdate")
def test_epochs_go_round() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(EPOCH_MAX)] == [1, 2, 1]


def test_sessions_are_closed_at_the_brokers_that_keep_one() -> None:
    sessions = FetchSessions()
    for broker_id, session_id in ((1, 11), (2, 0), (3, 33)):
        sessions.of(broker_id).request((fetch(0),))
        sessions.of(broker_id).on_response(OK, session_id, [got(0)])
    assert sessions.is_open
    assert sessions.close() == {1: SessionFields(11, -1, ()), 3: SessionFields(33, -1, ())}
    assert sessions.close() == {}
    sessions.on_closed(1)
    assert sessions.is_open
    sessions.on_closed(3)
    assert not sessions.is_open


@dataclass
class ModelBroker:
    """One broker's sessions, by KIP-227: what each fetches, the epoch that comes next, and what its client has been told."""

    ends: dict[int, int] = field(default_factory=dict)
    sessions: dict[int, tuple[int, dict[TopicPartition, PartitionFetch], dict[TopicPartition, int]]] = field(default_factory=dict)
    created: int = 0

    def answer(self, asked: SessionFields, *, keeps: bool) -> tuple[ErrorCode, int, list[PartitionResponse], set[PartitionFetch]]:
        """Error, session id and partitions of a response, and what the broker took the request for."""
        if asked.epoch == 0:
            self.sessions.pop(asked.session_id, None)
            session_id = 0
            wanted, told = {each.partition: each for each in asked.sent}, {}
            if keeps:
                self.created += 1
                session_id = self.created
                self.sessions[session_id] = (1, wanted, told)
            return OK, session_id, self.read(wanted, told, is_full=True), set(wanted.values())
        if asked.session_id not in self.sessions:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [], set()
        epoch, wanted, told = self.sessions[asked.session_id]
        if epoch != asked.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [], set()
        for each in asked.forgotten:
            del wanted[each.partition]
            told.pop(each.partition, None)
        wanted.update({each.partition: each for each in asked.sent})
        self.sessions[asked.session_id] = (epoch + 1, wanted, told)
        return OK, asked.session_id, self.read(wanted, told, is_full=False), set(wanted.values())

    def read(
        self, wanted: dict[TopicPartition, PartitionFetch], told: dict[TopicPartition, int], *, is_full: bool
    ) -> list[PartitionResponse]:
        found = []
        for partition in wanted:
            end = self.ends.get(partition.partition, 0)
            if is_full or told.get(partition) != end:
                found.append(got(partition.partition, end))
            told[partition] = end
        return found


ROUND = st.tuples(
    st.dictionaries(st.integers(0, 3), st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "b"])), max_size=4),
    st.sampled_from(["answered", "answered", "answered", "not sent", "lost", "evicted", "restarted", "no session"]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 9), max_size=2),
)


@given(st.lists(ROUND, max_size=12))
def test_a_session_is_what_a_full_request_would_list(rounds: Sequence[tuple[dict[int, tuple[int, str]], str, dict[int, int]]]) -> None:
    broker, session = ModelBroker(), FetchSession()
    for partitions, fate, ends in rounds:
        wanted = tuple(fetch(number, offset, topic_id) for number, (offset, topic_id) in partitions.items())
        if fate == "evicted":
            broker.sessions.pop(session.id, None)
        elif fate == "restarted":
            broker.sessions.clear()
        broker.ends.update(ends)
        asked = session.request(wanted)
        if fate == "not sent":
            session.on_no_response()
            continue
        error, session_id, found, believed = broker.answer(asked, keeps=fate != "no session")
        if fate == "lost":
            session.on_no_response()
            continue
        responses = session.on_response(error, session_id, found)
        if error is OK:
            assert believed == set(wanted)
            known = {each.partition.partition: each.high_watermark for each in responses}
            assert known == {number: broker.ends.get(number, 0) for number in partitions}, "what is left out has not changed"
        else:
            assert session.request(wanted).sent == wanted
            session.on_no_response()
