from ottla.core.diagnosis.story.rebalance import MemberName, StoryRebalance


def test_the_glyph_shows_the_verdict_without_a_colour() -> None:
    glyphs = [StoryRebalance(started_ms=0, planned=planned).glyph for planned in (True, False, None)]
    assert glyphs == ["▲", "▼", "?"]
    assert StoryRebalance(started_ms=0, planned=None, is_avoided=True).glyph == "◇"


def test_it_ends_when_the_assignment_was_stored_and_costs_partition_seconds() -> None:
    rebalance = StoryRebalance(started_ms=1_000, join_ms=300, sync_ms=20, stopped=12, stopped_ms=500)
    assert (rebalance.ended_ms, rebalance.stopped_seconds) == (1_320, 6.0)
    assert (StoryRebalance(started_ms=7).ended_ms, StoryRebalance(started_ms=7).stopped_seconds) == (7, 0.0)


def test_a_member_is_called_by_what_people_gave_it() -> None:
    assert MemberName("m-1", "instance", "client", None).text == "instance"
    assert MemberName("m-1", None, "client", None).text == "client"
    assert MemberName(None, None, None, None).text == "a member"
