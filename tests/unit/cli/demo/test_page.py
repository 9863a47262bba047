from ottla.cli.demo.lag_chart import LagRow
from ottla.cli.demo.page import lag_history, report_page
from ottla.core.model import GroupEvent, TopicPartition


def test_the_greatest_lag_of_each_quarter_of_a_second_is_kept() -> None:
    rows = [LagRow(0, 1_000, 5), LagRow(0, 1_010, 9), LagRow(0, 1_600, 0), LagRow(1, 1_300, None)]
    history = lag_history(rows)
    assert (history.from_ms, history.step_ms) == (1_000, 250)
    assert history.rows[TopicPartition("flights", 0)] == [9, 9, 9]
    assert history.rows[TopicPartition("flights", 1)] == [-1, -1, -1]


def test_the_page_is_of_the_demos_group_alone() -> None:
    def emptied(group: str) -> GroupEvent:
        return GroupEvent(at_ms=1, group=group, kind="emptied", generation=2, state_from="Stable", state_to="Empty")

    page = report_page([emptied("flight-desk"), emptied("demo-watch")], [])
    assert 'data-group="flight-desk"' in page
    assert "demo-watch" not in page
