"""A short run of the fuzzer, and what it says when something is wrong."""

from pathlib import Path

import pytest

from ottla.testing.fuzz import fuzz_run
from ottla.testing.fuzz.ledger import Ledger


def test_a_second_of_it(tmp_path: Path) -> None:
    assert "all well" in fuzz_run.run_seed(7, 1, tmp_path)


def test_a_record_that_is_gone_ends_the_run_with_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "missing", lambda *_: [3])
    with pytest.raises(fuzz_run.Wrong, match=r"seed 8, after .*the first at offset 3"):
        fuzz_run.run_seed(8, 0.5, tmp_path)


def test_a_traceback_in_the_log_is_wrong(tmp_path: Path) -> None:
    fuzz = fuzz_run.Fuzz(9, tmp_path)
    fuzz._broker.log_path.write_text("INFO started\nTraceback (most recent call last):\n")
    with pytest.raises(fuzz_run.Wrong, match="traceback"):
        fuzz._check_log()
