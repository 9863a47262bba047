"""Who is in the group of a world."""

from ottla.testing.streaming_kills.line_ups import ALONE, COMMIT, MEMBER, PLAIN, SHARING, SPARK, line_up


def test_in_commit_mode_a_query_is_alone():
    assert {line_up(COMMIT, number) for number in range(1, 9)} == {ALONE}
    assert (ALONE.mode, ALONE.members) == (COMMIT, (SPARK,))


def test_in_member_mode_each_has_its_turn():
    assert [line_up(MEMBER, number) for number in range(1, 1 + len(SHARING))] == list(SHARING)
    assert line_up(MEMBER, 1 + len(SHARING)) == SHARING[0]
    assert {who.mode for who in SHARING} == {MEMBER}
    assert {who.members for who in SHARING} == {(SPARK,), (SPARK, SPARK), (SPARK, PLAIN)}
