"""The scripts that are played to both brokers: a seed is a script, and a difference is found."""

from trials.transaction_scripts.comparison import differences
from trials.transaction_scripts.moves import MOVES, script_of


def test_a_seed_is_a_script() -> None:
    assert script_of(7) == script_of(7) != script_of(8)


def test_all_moves_are_made() -> None:
    made = {name for seed in range(50) for name, _ in script_of(seed)}
    assert len(made) == len(MOVES) + 1, "each, and rest"


def test_differences() -> None:
    assert differences([1, 2], [1, 2], "record") == []
    assert differences([1, 2], [1, 3], "record") == ["record 1: 2 there, 3 here"]
    assert differences([1, 2], [1], "record") == ["records: 2 there, 1 here; [2] is one too many"]
