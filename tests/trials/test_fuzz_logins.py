"""A short run of the fuzzer of logins, and what it says when something is wrong."""

from pathlib import Path

import pytest

from trials.fuzz import logins
from trials.fuzz.fuzz import Wrong
from trials.fuzz.logins import LoginFuzz


def test_half_a_second_of_it(tmp_path: Path) -> None:
    fuzz = LoginFuzz(3, tmp_path)
    fuzz.run(0.5)
    assert fuzz.conversations > 1
    assert fuzz.logins >= 4


def test_what_is_wrong_in_a_log(tmp_path: Path) -> None:
    fuzz = LoginFuzz(3, tmp_path)
    fuzz.check_log("User:honest authenticated from /127.0.0.1 by PLAIN\n")
    for text, words in (
        ("INFO\nTraceback (most recent call last):\n", "traceback"),
        ("User:nobody authenticated from /127.0.0.1 by PLAIN\n", "User:nobody"),
        ("x" * (logins.LOG_BYTES_MAX + 1), "MB"),
    ):
        with pytest.raises(Wrong, match=words):
            fuzz.check_log(text)


def test_an_open_door_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz = LoginFuzz(3, tmp_path)
    monkeypatch.setattr(LoginFuzz, "_logs_in", lambda *_: True)
    with pytest.raises(Wrong, match="a wrong password logs in"):
        fuzz.run(0.1)
