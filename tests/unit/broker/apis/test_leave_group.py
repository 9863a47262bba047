"""LeaveGroup: one member or many; one error or one each."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(6))
def test_every_version(api, member, version: int) -> None:
    leaver = member()
    leaver.join()

    def leave(member_id: str):
        one = {"member_id": member_id, "group_instance_id": None, "reason": "done"}
        return api.ask(ApiKey.LEAVE_GROUP, version, group_id="g", **({"members": [one]} if version >= 3 else {"member_id": member_id}))

    for member_id, error in (("unknown", 25), (leaver.member_id, 0), (leaver.member_id, 25)):
        answer = leave(member_id)
        if version >= 3:
            assert (answer.error_code, [left.error_code for left in answer.members]) == (0, [error])
        else:
            assert answer.error_code == error


def test_an_admin_removes_a_static_member_by_its_instance(api, member) -> None:
    static = member(instance_id="i1")
    static.join()
    one = {"member_id": "", "group_instance_id": "i1", "reason": None}
    answer = api.ask(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[one, {**one, "group_instance_id": "i2"}])
    assert [left.error_code for left in answer.members] == [0, 25]
