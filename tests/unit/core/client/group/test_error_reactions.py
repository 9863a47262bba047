"""Error codes of the group APIs and what a member does about them."""

import pytest

from ottla.core.client.group.error_reactions import HEARTBEAT, JOIN, SYNC, Reaction, reaction
from ottla.core.errors import ErrorCode as E


@pytest.mark.parametrize("table", [JOIN, SYNC, HEARTBEAT])
def test_a_coordinator_that_moved_is_looked_for(table: dict[E, Reaction]) -> None:
    assert {reaction(table, error) for error in (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE)} == {Reaction.FIND_COORDINATOR}


@pytest.mark.parametrize("table", [JOIN, SYNC])
def test_an_error_without_an_entry_is_raised_unless_it_is_retriable(table: dict[E, Reaction]) -> None:
    assert reaction(table, E.GROUP_MAX_SIZE_REACHED) is Reaction.FAIL
    assert reaction(table, E.FENCED_INSTANCE_ID) is Reaction.FAIL
    assert reaction(table, E.COORDINATOR_LOAD_IN_PROGRESS) is Reaction.RETRY_LATER


def test_a_heartbeat_with_another_error_counts_as_failed() -> None:
    assert reaction(HEARTBEAT, E.UNKNOWN_SERVER_ERROR) is Reaction.IGNORE


def test_only_an_unknown_member_forgets_its_id() -> None:
    assert reaction(SYNC, E.UNKNOWN_MEMBER_ID) is Reaction.FORGET_MEMBER
    assert reaction(SYNC, E.ILLEGAL_GENERATION) is Reaction.FORGET_GENERATION
