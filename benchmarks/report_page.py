"""The report's page in Chromium: size, CPU time until it is drawn, and frames while it pans and zooms.

    python benchmarks/report_page.py [--small] [--json FILE]

1,000 rebalances, 200 members, 2,000 partitions; a quarter and a sixteenth a side; and all partitions moving each time. CPU time is that of
all the browser's processes since the page was asked for: wall time depends on the machine's neighbours. An empty page is measured as well.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from made_up_story import made_up_day

from ottla.console.report.report import report_page
from ottla.history.story.story import StoryExtras, story

ARGUMENTS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ARGUMENTS += ["--disable-sync", "--no-first-run"]
BROWSERS = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
MOVES = """async ([kind, frames]) => {
  const t = document.querySelector('.timeline').timeline;
  t.showAll();
  if (kind === 'pan') t.zoom(0.25);
  await new Promise((done) => setTimeout(done, 400));
  const scripts = [], intervals = [];
  let last = 0;
  for (let at = 0; at < frames; at++) {
    if (kind === 'pan') t.pan(at % 50 < 25 ? 12 : -12);
    else t.zoom(at % 50 < 25 ? 0.93 : 1 / 0.93);
    const now = await new Promise((done) => requestAnimationFrame(done));
    if (last) intervals.push(now - last);
    last = now;
    scripts.push(t.drawMs);
  }
  return [scripts, intervals];
}"""


@dataclass(frozen=True)
class Size:
    """A made-up day."""

    name: str
    rebalances: int
    members: int
    partitions: int
    moves_all: bool = False
    openings: int = 5
    frames: int = 100


SIZES = (
    Size("1,000 x 200 x 2,000", 1_000, 200, 2_000),
    Size("a quarter a side", 250, 50, 500),
    Size("a sixteenth", 63, 13, 125),
    Size("all partitions move", 1_000, 200, 2_000, moves_all=True),
)
SMALL = (Size("small", 24, 6, 24, openings=1, frames=10),)


def measure(browser: Any, size: Size, directory: Path) -> dict[str, float]:
    """All figures of one size."""
    day = made_up_day(rebalances=size.rebalances, members=size.members, partitions=size.partitions, moves_all=size.moves_all)
    began = time.process_time()
    told = story("orders-enrichment", day.evidence, day.rebalances, StoryExtras(lag=day.lag, deployments=day.deployments))
    encoded = told.to_bytes()
    story_ms = (time.process_time() - began) * 1_000
    page = report_page([told])
    path = directory / "report.html"
    path.write_text(page, "utf-8")
    found = {"story and encode, CPU ms": story_ms, "container, MB": len(encoded) / 1e6, "file, MB": len(page.encode()) / 1e6}
    openings = [opened(browser, path) for _ in range(size.openings)]
    found |= {name: statistics.median(each[name] for each in openings) for name in openings[0]}
    (directory / "empty.html").write_text("<!doctype html><html data-ready=yes><p>nothing")
    nothing = [opened(browser, directory / "empty.html") for _ in range(size.openings)]
    found["an empty page, CPU ms"] = statistics.median(each["drawn, CPU ms"] for each in nothing)
    with page_of(browser, path) as shown:
        for kind in ("pan", "zoom"):
            scripts, intervals = shown.evaluate(MOVES, [kind, size.frames])
            found[f"{kind}, script p50, ms"] = statistics.median(scripts)
            found[f"{kind}, script p95, ms"] = statistics.quantiles(scripts, n=20)[-1]
            found[f"{kind}, interval p95, ms"] = statistics.quantiles(intervals, n=20)[-1]
            found[f"{kind}, CPU ms a frame, main thread"] = main_thread_ms(shown, kind, size.frames) / size.frames
    return found


def main_thread_ms(page: Any, kind: str, frames: int) -> float:
    """CPU time of the page's main thread over all frames."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = task_ms(session)
    page.evaluate(MOVES, [kind, frames])
    return task_ms(session) - before


def task_ms(session: Any) -> float:
    """The main thread's CPU time since the page began."""
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"]) * 1_000


def opened(browser: Any, path: Path) -> dict[str, float]:
    """One opening, in a context of its own: CPU and wall time until the page says that it is drawn."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    cpu, began = cpu_seconds(), time.monotonic()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
    found = {"drawn, CPU ms": (cpu_seconds() - cpu) * 1_000, "drawn, wall ms": (time.monotonic() - began) * 1_000}
    found["drawn, CPU ms, main thread"] = task_ms(session)
    context.close()
    return found


@contextmanager
def page_of(browser: Any, path: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
    yield page
    context.close()


def cpu_seconds() -> float:
    """The CPU time of all processes of the browser that this one has started."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "chrom" in process.name():
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def main() -> None:
    """Measure every size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a small page only: checks that it runs, not its speed")
    parser.add_argument("--only", default="", help="only sizes with this in their name")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args()
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        print("There is no Chromium: apt-get install chromium", file=sys.stderr)
        return
    from playwright.sync_api import sync_playwright

    results = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        for size in [each for each in (SMALL if given.small else SIZES) if given.only in each.name]:
            results[size.name] = measure(browser, size, Path(directory))
            print(f"measured: {size.name}", file=sys.stderr)
        print(f"Chromium {browser.version}\n")
        browser.close()
    names = list(next(iter(results.values())))
    print("| | " + " | ".join(results) + " |\n|---|" + "---|" * len(results))
    for name in names:
        print(f"| {name} | " + " | ".join(f"{figures[name]:.3g}" for figures in results.values()) + " |")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
