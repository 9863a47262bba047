"""The latest rows of a real frame are in tests/spark/test_rebalances.py; here is what needs no Spark."""

from typing import Any
from unittest.mock import Mock

import pytest

from ottla.spark.pipelines import Pipeline
from ottla.spark.runner import overviews
from ottla.spark.runner.overviews import overview_text


def test_a_list_by_size_shows_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(overviews, "table_text", lambda frame, **options: seen.append((frame, options)) or "text\n")
    pipeline = Pipeline(inputs={}, outputs={}, appended={}, steps=(), overview=lambda frame: frame.by_size)
    table = Mock()

    assert overview_text(pipeline, table, width=80, limit=7, since_ms=None) == "text\n"
    assert seen == [(table.by_size, {"width": 80, "rows_max": 7})]
