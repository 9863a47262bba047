from ottla.core.diagnosis.story.assignments import AssignmentChange, owner_arrays
from ottla.core.diagnosis.story.columns import rebalance_columns, stored_assignments
from ottla.core.diagnosis.story.rebalance import MemberName, StoryRebalance


def test_a_rebalance_stored_the_first_assignment_of_its_generation_after_it_began() -> None:
    arrays = owner_arrays([AssignmentChange(at_ms, generation, []) for at_ms, generation in [(10, 1), (20, 2), (90, 1)]], rows=1)
    rebalances = [
        StoryRebalance(started_ms=5, generation=1),
        StoryRebalance(started_ms=80, generation=1),  # the group was deleted in between: it counts from one again
        StoryRebalance(started_ms=95, generation=1),
        StoryRebalance(started_ms=15, generation=2, is_avoided=True),
        StoryRebalance(started_ms=15),
    ]
    assert stored_assignments(rebalances, arrays) == [[0], [2], [], [], []]


def test_a_cooperative_rebalance_stored_one_for_each_of_its_generations() -> None:
    arrays = owner_arrays([AssignmentChange(at_ms, generation, []) for at_ms, generation in [(10, 1), (20, 2), (30, 3)]], rows=1)
    assert stored_assignments([StoryRebalance(started_ms=15, generation=2, generations=(2, 3))], arrays) == [[1, 2]]


def test_all_columns_have_a_value_for_each_rebalance() -> None:
    rebalances = [
        StoryRebalance(started_ms=1),
        StoryRebalance(started_ms=2, member=MemberName(None, "i", None, None), candidates=("A", "B")),
    ]
    columns = rebalance_columns(rebalances, [None, 3], owner_arrays([], rows=0))
    assert {len(values) for values in columns.values()} == {2}
    assert (columns["row"], columns["member_name"], columns["candidates"]) == ([None, 3], [None, "i"], [[], ["A", "B"]])
