"""Small logs are read by the plain lane, large ones by the columnar one, where its code is there."""

from typing import Any

import pytest

from ottla.broker.loading_lane import COLUMNAR_BYTES_MIN, LoadingLanes
from ottla.columnar import kept
from ottla.core.groups.log_fold import PlainFold


def never(_command: Any) -> Any:
    raise AssertionError("nothing is to be compiled")


def test_a_small_log_needs_nothing_heavy() -> None:
    assert LoadingLanes(never).choose(COLUMNAR_BYTES_MIN - 1) is PlainFold


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_large_log_is_read_by_compiled_code_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, is_kept: bool) -> None:
    from ottla.columnar.group_loading import ColumnarFold

    class Process:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(kept, "is_kept", lambda _module: is_kept)
    lanes = LoadingLanes(lambda _command: Process())  # type: ignore[arg-type,return-value]
    assert lanes.choose(COLUMNAR_BYTES_MIN) is (ColumnarFold if is_kept else PlainFold)
    lanes.close()
