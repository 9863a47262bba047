"""The daemon loads the kernels first, and then is Spark's own."""

import pytest

from ottla.spark import daemon


def test_kernels_first(monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    monkeypatch.setattr(daemon, "warm_up", lambda: order.append("kernels"))
    monkeypatch.setattr(daemon.daemon, "manager", lambda: order.append("manager"))
    daemon.main()
    assert order == ["kernels", "manager"]
