"""Defaults of the results of admin requests."""

from ottla.client.admin.values import CommittedOffset, DescribedMember, Failure
from ottla.protocol.errors import ErrorCode


def test_defaults() -> None:
    assert CommittedOffset(5).leader_epoch == -1
    assert Failure(ErrorCode.NON_EMPTY_GROUP).message is None
    member = DescribedMember(member_id="m", instance_id=None, client_id="c", host="/h")
    assert (member.assigned, member.target, member.epoch, member.is_upgraded) == (None, None, None, None)
