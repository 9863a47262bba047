"""How far a run is, from Spark's status; nothing is shown without a terminal."""

import io
import threading
from types import SimpleNamespace

import pytest
from rich.console import Console

from ottla.cli.pipeline.progress import Bar, end_offsets, tasks_done


def test_tasks_of_all_present_stages_count():
    stages = {1: SimpleNamespace(numTasks=8, numCompletedTasks=2), 2: SimpleNamespace(numTasks=2, numCompletedTasks=0), 3: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    assert tasks_done(tracker) == 0.2
    assert tasks_done(SimpleNamespace(getActiveStageIds=list, getStageInfo=stages.get)) == 0.0


def test_offsets_of_a_micro_batch_without_the_ids_of_topics():
    text = '{"t": {"0": 5, "1": 7}, "#topic_ids": {"t": "x"}}'
    assert end_offsets({"sources": [{"endOffset": text}]}) == 12
    assert end_offsets({"sources": [{"endOffset": None}]}) == end_offsets({"sources": []}) == end_offsets(None) == 0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_moves_on_a_terminal_and_is_silent_elsewhere(is_terminal: bool):
    out, looked = io.StringIO(), threading.Event()

    def look() -> float:
        looked.set()
        return 0.5

    with Bar(Console(file=out, force_terminal=is_terminal, width=80), "Spark starts") as bar:
        bar.show("offset_commits", look)
        assert not is_terminal or looked.wait(60)
    assert ("offset_commits" in out.getvalue()) == is_terminal
