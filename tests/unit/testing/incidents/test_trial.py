"""The operator's trial in a world without brokers: who is slow, who freezes, who is deployed."""

from collections.abc import Callable

import pytest

from ottla.testing.incidents import trial
from ottla.testing.incidents.group_run import GroupRun, Plan
from ottla.testing.incidents.trial import DEPLOYED, FROZEN, PLAN, SLOW, make_trouble, start_trial


def test_three_members_make_trouble(new_run: Callable[[Plan], GroupRun], monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(PLAN)
    start_trial(run)
    names = {position: handle.settings.client_id for position, handle in run.members.items()}  # type: ignore[attr-defined]
    assert len(set(names.values())) == 4
    assert run.members[SLOW].settings.max_poll_ms == trial.MAX_POLL_MS  # type: ignore[attr-defined]
    make_trouble(run)
    assert run.world.done == ["sleep", "freeze", "close"]  # type: ignore[attr-defined]
    assert run.members[DEPLOYED].settings.client_id == names[DEPLOYED]  # type: ignore[attr-defined]
    assert run.members[FROZEN].assignment()
