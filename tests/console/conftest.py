"""One browser for the tests of a module (without a Chromium they are skipped), and a small bad day of a group to show in it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ottla.console.report.report import Report
from ottla.groups.events import EventMember, GroupEvent
from ottla.history.story.arrays import LagHistory
from ottla.protocol.model import TopicPartition

ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SHOWN = "section:not([hidden]) .timeline"
NAMES = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")


def find_chromium() -> str | None:
    """The system's Chromium; playwright's own cannot be had everywhere."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program, which playwright can start."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'ottla[test]'")
    path = find_chromium()
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    return path


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """Of one module: while it is open, playwright's event loop runs in this thread, and no test could start one of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield running
        running.close()


@dataclass
class Opened:
    """A page that was opened from a file, with what it asked for and what went wrong in it."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def timeline(self, expression: str, value: object = None) -> Any:
        """Something of the timeline that is shown, e.g. `timeline("place($)", {"rebalance": 1})`; `$` is the value, `$.timeline` itself."""
        read = expression.replace("$.timeline", "t").replace("$.value", "$")
        return self.page.evaluate(f"($) => {{ const t = document.querySelector('{SHOWN}').timeline; return t.{read}; }}", value)

    def at(self, **place: object) -> Any:
        """What stands at the place of a rebalance, a member at a time, a partition at a time."""
        found = self.timeline("place($)", place)
        return found and self.timeline("at($.x, $.y)", found)

    def colour(self, **place: object) -> list[int]:
        """Red, green and blue of the pixel there."""
        found = self.timeline("place($)", place)
        script = "canvas.getContext('2d').getImageData($.x * t.ratio, $.y * t.ratio, 1, 1).data"
        return list(self.timeline(script, found))[:3]

    def variable(self, name: str) -> list[int]:
        """A colour of the page's style."""
        text = self.timeline("theme.css[$]", name).removeprefix("#")
        return [int(text[at : at + 2], 16) for at in (0, 2, 4)]

    def click(self, **place: object) -> None:
        """Click there."""
        found = self.timeline("place($)", place)
        self.page.click(f"{SHOWN} canvas.over", position=found)

    def settle(self) -> None:
        """Wait until the view stands still and is drawn."""
        self.page.wait_for_timeout(250)


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens a page's text from the disk, as a user would."""
    contexts = []

    def open_text(text: str, *, is_ready: bool = True, **options: Any) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(text, "utf-8")
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.on("console", lambda message: opened.errors.append(message.text) if message.type == "error" else None)
        opened.page.goto(path.as_uri())
        if is_ready:
            opened.page.wait_for_selector("html[data-ready]", state="attached", timeout=20_000)
        return opened

    yield open_text
    for context in contexts:
        context.close()


BEGIN_MS = 1_795_125_600_000
GROUP = "orders"


def _member(name: str, start: int, partitions: list[int]) -> EventMember:
    return EventMember(
        member_id=f"{name}-{start}",
        instance_id=None,
        client_id=name,
        client_host="/10.0.0.7",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=300_000,
        assignment={"orders": partitions} if partitions else {},
    )


class BadDay:
    """Two members start, one falls silent and comes back, one leaves: the events; times are seconds since the beginning."""

    def __init__(self, *, group: str = GROUP, names: tuple[str, str] = ("w1", "w2")) -> None:
        self.events: list[GroupEvent] = []
        self._group = group
        self._generation = 0
        one, two = names
        self._trigger(1, "JOIN_NEW", one, 1)
        self._assign(1.2, {(one, 1): [0, 1, 2, 3]})
        self._trigger(10, "JOIN_NEW", two, 1)
        self._assign(10.5, {(one, 1): [0, 1], (two, 1): [2, 3]})
        self._trigger(30, "EXPIRE_HEARTBEAT", two, 1, evidence={"last_heartbeat_age_ms": 6_100})
        self._assign(30.4, {(one, 1): [0, 1, 2, 3]})
        self._trigger(35, "JOIN_NEW", two, 2)
        self._assign(36, {(one, 1): [0, 1], (two, 2): [2, 3]})
        self._trigger(50, "LEAVE", one, 1, client_reason="the consumer is being closed")
        self._assign(50.3, {(two, 2): [0, 1, 2, 3]})

    def _trigger(self, at_s: float, code: str, name: str, start: int, **fields: Any) -> None:
        named = {"member_id": f"{name}-{start}", "client_id": name, "client_host": "/10.0.0.7"}
        self._add(at_s, "trigger", trigger=code, reason=f"reason of {name}", **named, **fields)

    def _assign(self, at_s: float, owned: dict[tuple[str, int], list[int]]) -> None:
        self._generation += 1
        joined = [_member(name, start, []) for name, start in owned]
        self._add(at_s - 0.05, "join_completed", members=joined)
        self._add(at_s, "sync_completed", members=[_member(*who, partitions) for who, partitions in owned.items()], protocol="range")

    def _add(self, at_s: float, kind: str, **fields: Any) -> None:
        self.events.append(
            GroupEvent(
                at_ms=BEGIN_MS + round(at_s * 1_000),
                group=self._group,
                kind=kind,
                generation=self._generation,
                state_from="Stable" if self._generation else "Empty",
                state_to="Stable",
                **fields,
            )
        )


def _lag() -> LagHistory:
    """A second a sample: the partitions of the silent member fall behind."""
    rows = {}
    for partition in range(4):
        silent = [max(0, second - 24) * 100 if partition >= 2 and second < 31 else 3 for second in range(60)]
        rows[TopicPartition("orders", partition)] = silent
    return LagHistory(BEGIN_MS, 1_000, rows)


@pytest.fixture
def bad_day() -> type[BadDay]:
    return BadDay


@pytest.fixture
def report() -> Report:
    """The report of the bad day, with lag."""
    return Report.of_events(BadDay().events, lag={GROUP: _lag()})
