"""Small logs take the plain lane; large ones the columnar one, where its code is there."""

from typing import Any

import pytest

from ottla.broker.cleaner_lane import COLUMNAR_BYTES_MIN, Lanes
from ottla.columnar import kept
from ottla.core.cleaning.plain import PlainLane


def never(_command: Any) -> Any:
    raise AssertionError("nothing is to be compiled")


def test_small_logs_start_nothing() -> None:
    assert isinstance(Lanes(never).choose(COLUMNAR_BYTES_MIN - 1), PlainLane)


@pytest.mark.parametrize(("is_kept", "lane"), [(True, "ColumnarLane"), (False, "PlainLane")])
def test_large_logs_take_the_columnar_lane_where_they_can(monkeypatch: pytest.MonkeyPatch, is_kept: bool, lane: str) -> None:
    class Process:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(kept, "is_kept", lambda _module: is_kept)
    lanes = Lanes(lambda _command: Process())  # type: ignore[arg-type,return-value]
    assert type(lanes.choose(COLUMNAR_BYTES_MIN)).__name__ == lane
    lanes.close()
