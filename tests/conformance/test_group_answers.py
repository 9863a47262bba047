"""Fields of answers that the scenario files do not tell: protocol type, generation, leader epoch."""

from typing import Any

import pytest

from ottla.coordinator.coordinator import FinishLoading
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.commands import parse_command

TWO_MEMBERS = ("join g - new=s1 instance=leader", "join g - new=s2 instance=follower")


class Asked:
    """A coordinator that is asked by the lines of scenario files; `answers` has what request n was answered."""

    def __init__(self) -> None:
        self.shell = CoordinatorShell(lambda: GroupCoordinator(GroupSettings()))
        self.shell.run(FinishLoading(), 0)
        self.answers: dict[int, Any] = {}
        self.count = 0

    def ask(self, *lines: str) -> Any:
        """Ask one after the other; the answer to the last, None while it waits. Timers that are due fire after each."""
        for line in lines:
            self.count += 1
            self._keep(self.shell.run(parse_command(line, self.count), 0))
        return self.answers.get(self.count)

    def first_round_ends(self) -> None:
        """The initial delay is over."""
        while (effects := self.shell.fire_timers(0)) is not None:
            self._keep(effects)

    def _keep(self, effects: Any) -> None:
        self.answers |= {reply.to: reply.result for reply in effects.replies}


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.mark.conformance(
    "GroupMetadataManagerTest.testJoinGroupReturnsTheProtocolType", "GroupCoordinatorTest.testJoinGroupReturnsTheProtocolType"
)
def test_a_member_gets_the_protocol_type(asked: Asked) -> None:
    asked.ask(*TWO_MEMBERS)
    asked.first_round_ends()
    for number in (1, 2):
        assert (asked.answers[number].error, asked.answers[number].protocol_type) == (ErrorCode.NONE, "consumer")


@pytest.mark.conformance(
    "GroupMetadataManagerTest.testJoinGroupProtocolTypeIsNotProvidedWhenAnErrorOccurs",
    "GroupCoordinatorTest.testJoinGroupProtocolTypeIsNotProvidedWhenAnErrorOccurs",
)
def test_an_error_has_no_protocol_type(asked: Asked) -> None:
    refused = asked.ask("join g fake-id")
    assert (refused.error, refused.protocol_type) == (ErrorCode.UNKNOWN_MEMBER_ID, None)


@pytest.mark.conformance("GroupMetadataManagerTest.testJoinGroupExistingMemberInEmptyState")
def test_an_error_has_no_generation(asked: Asked) -> None:
    asked.ask("join g - new=s1 instance=leader")
    asked.first_round_ends()
    asked.ask("leave g s1")
    refused = asked.ask("join g s1")
    assert (refused.error, refused.generation) == (ErrorCode.UNKNOWN_MEMBER_ID, -1)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(
            "type=whatever",
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            marks=pytest.mark.conformance(
                "GroupMetadataManagerTest.testSyncGroupReturnsAnErrorWhenProtocolTypeIsInconsistent",
                "GroupCoordinatorTest.testSyncGroupReturnsAnErrorWhenProtocolTypeIsInconsistent",
            ),
        ),
        pytest.param(
            "name=whatever",
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            marks=pytest.mark.conformance(
                "GroupMetadataManagerTest.testSyncGroupReturnsAnErrorWhenProtocolNameIsInconsistent",
                "GroupCoordinatorTest.testSyncGroupReturnsAnErrorWhenProtocolNameIsInconsistent",
            ),
        ),
        pytest.param(
            "",
            ErrorCode.NONE,
            marks=pytest.mark.conformance(
                "GroupMetadataManagerTest.testSyncGroupSucceedWhenProtocolTypeAndNameAreNotProvided",
                "GroupCoordinatorTest.testSyncGroupSucceedWhenProtocolTypeAndNameAreNotProvided",
            ),
        ),
        pytest.param(
            "type=consumer name=range",
            ErrorCode.NONE,
            marks=pytest.mark.conformance(
                "GroupMetadataManagerTest.testSyncGroupSucceedWhenProtocolTypeAndNameAreConsistent",
                "GroupCoordinatorTest.testSyncGroupSucceedWhenProtocolTypeAndNameAreConsistent",
            ),
        ),
    ],
)
def test_what_members_say_of_the_protocol_and_hear_of_it(asked: Asked, said: str, error: ErrorCode) -> None:
    asked.ask(*TWO_MEMBERS)
    asked.first_round_ends()
    agreed = ("consumer", "range") if error is ErrorCode.NONE else (None, None)
    for line in (f"sync g s1 gen=1 assignment=s1:flights/0;s2:flights/1 {said}", f"sync g s2 gen=1 {said}"):
        answer = asked.ask(line)
        assert (answer.error, answer.protocol_type, answer.protocol_name) == (error, *agreed)


@pytest.mark.conformance("GroupCoordinatorTest.testFetchOffsets")
def test_an_offset_comes_back_with_its_leader_epoch_and_metadata(asked: Asked) -> None:
    fetched = asked.ask('commit g "topic/0=97(some metadata)" epoch=15', "fetch g topic/0")
    ((_, (offset,)),) = fetched.topics
    assert (offset.error, offset.offset, offset.metadata, offset.leader_epoch) == (ErrorCode.NONE, 97, "some metadata", 15)
