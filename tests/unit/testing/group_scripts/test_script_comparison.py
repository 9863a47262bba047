"""The differences of two responses as text, and of two orders; whole comparisons are in test_comparison_run and with Apache Kafka."""

from ottla.testing.group_scripts.script_comparison import differences, out_of_order


def test_the_same_is_the_same() -> None:
    answer = {"error_code": 0, "members": [{"id": "a"}]}
    assert list(differences(answer, {**answer}, "answer")) == []


def test_every_place_is_named_with_both_values() -> None:
    ours = {"error_code": 0, "members": [{"id": "a", "metadata": b""}, {"id": "b", "metadata": b""}]}
    theirs = {"error_code": 25, "members": [{"id": "a", "metadata": b"x"}, {"id": "b", "metadata": b""}]}
    assert list(differences(ours, theirs, "answer")) == [
        "answer.error_code: 0 and should be 25",
        "answer.members[0].metadata: b'' and should be b'x'",
    ]


def test_more_or_fewer_is_one_difference() -> None:
    assert len(list(differences([1], [1, 2], "list"))) == 1
    assert len(list(differences({"a": 1}, {"b": 1}, "fields"))) == 1


def test_pairs_that_were_answered_the_other_way_round() -> None:
    pairs = [(1, 3), (2, 3), (1, 4)]
    assert list(out_of_order([2, 1, 3, 4], pairs)) == []
    assert list(out_of_order([1, 3, 2, 4], pairs)) == [(3, 2)]
    assert list(out_of_order([4, 3, 2, 1], pairs)) == [(3, 1), (3, 2), (4, 1)]
    assert list(out_of_order([3, 1], [])) == []
