"""Plans as CSV, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.groups.reset_plan_file import read_plan, write_plan
from ottla.core.model import TopicPartition

PLAN = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}


def test_with_and_without_groups() -> None:
    assert write_plan({"g": PLAN}, with_group=False) == "t,0,5\nt,1,0\n"
    assert write_plan({"g": PLAN, "h": {}}, with_group=True) == "g,t,0,5\ng,t,1,0\n"


def test_texts_that_need_quotes_or_are_long_have_them() -> None:
    assert write_plan({'a"b': {TopicPartition("x" * 25, 0): 1}}, with_group=True) == f'"a""b","{"x" * 25}",0,1\n'


@pytest.mark.parametrize("name", ["=1+1", "+1", "-topic", "@x", "'=1", "'+x"])
def test_a_name_that_a_spreadsheet_would_calculate_is_text(name: str) -> None:
    written = write_plan({name: {TopicPartition("t", 0): 1}}, with_group=True)
    assert written == f"'{name},t,0,1\n"
    assert read_plan(written, [name, "other"]) == {name: {TopicPartition("t", 0): 1}}


names = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=40)
offsets = st.dictionaries(st.builds(TopicPartition, names, st.integers(0, 99)), st.integers(0, 2**62), min_size=1, max_size=4)


@given(st.dictionaries(names, offsets, min_size=1, max_size=3))
def test_there_and_back(plans: dict[str, dict[TopicPartition, int]]) -> None:
    assert read_plan(write_plan(plans, with_group=True), list(plans)) == plans
    (group, plan), *_ = plans.items()
    assert read_plan(write_plan({group: plan}, with_group=False), [group]) == {group: plan}


def test_lines_without_a_group_are_for_the_one_that_was_named() -> None:
    assert read_plan("t,0,5\n\nt, 1 ,0\n", ["g"]) == {"g": PLAN}
    assert read_plan("", ["g"]) == {}


@pytest.mark.parametrize(
    ("text", "groups", "sentence"),
    [
        ("t,0,5\n", ["g", "h"], "line 1 of the plan is 't,0,5', not group,topic,partition,offset"),
        ("t,0,5\nt,0\n", ["g"], "line 2 of the plan is 't,0', not topic,partition,offset"),
        ("g,t,0,5,6\n", ["g"], "line 1 of the plan is 'g,t,0,5,6', not group,topic,partition,offset"),
        ("t,zero,5\n", ["g"], "Cannot parse argument 'zero' of option from-file, line 1"),
        ("t,0,5\nt,1,x\n", ["g"], "Cannot parse argument 'x' of option from-file, line 2"),
    ],
)
def test_lines_that_make_no_sense(text: str, groups: list[str], sentence: str) -> None:
    with pytest.raises(CommandFailed) as raised:
        read_plan(text, groups)
    assert str(raised.value) == sentence
