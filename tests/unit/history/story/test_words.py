import pytest

from ottla.history.story.sentences import counted, duration


def test_nouns_agree_with_their_numbers() -> None:
    assert (counted(1, "member"), counted(0, "member"), counted(1_200, "member")) == ("1 member", "0 members", "1,200 members")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (6_100, "6.1 s"),
        (60_000, "1 min"),
        (250_000, "4 min 10 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
    ],
)
def test_durations_have_the_unit_that_fits(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
