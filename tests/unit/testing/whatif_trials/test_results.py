from pathlib import Path

from ottla.testing.whatif_trials.results import BEGIN, END, Result, table, write_table
from ottla.testing.whatif_trials.trials import TRIALS

RIGHT = Result(TRIALS[0], recorded=2, replayed=2, predicted=0, actual=0)
WRONG = Result(TRIALS[1], recorded=2, replayed=2, predicted=0, actual=1)
FAILED = Result(TRIALS[2], failure="TimeoutError: not stable")


def test_a_prediction_is_right_when_it_came_true() -> None:
    assert [result.is_right for result in (RIGHT, WRONG, FAILED)] == [True, False, False]


def test_the_table_says_how_many_came_true() -> None:
    found = table([RIGHT, WRONG, FAILED])
    assert "| 2 | 2 | 0 | 0 | yes |" in found
    assert "TimeoutError: not stable |" in found
    assert found.endswith("1 of 3 predictions came true.\n")


def test_the_table_replaces_the_one_before(tmp_path: Path) -> None:
    document = tmp_path / "whatif.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_table(document, [RIGHT])
    text = document.read_text()
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
