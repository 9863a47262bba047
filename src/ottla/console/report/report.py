"""The report as an object of Python: its page as text, and itself as the output of a notebook's cell."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Self

from ottla.console.report.page import report_page
from ottla.console.report.table import advice_html, headline_html, table_html
from ottla.groups.events import GroupEvent
from ottla.history.sources.evidence import Evidence
from ottla.history.sources.group_events import BROKER_CLOCK, evidence_of_event
from ottla.history.story.arrays import LagHistory
from ottla.history.story.stories import EVERYTHING, StoryOptions, stories
from ottla.history.story.story import Story

FRAME_HEIGHT: Final = 860
_SANDBOX: Final = "allow-scripts"


@dataclass(frozen=True, slots=True)
class Report:
    """The stories of some groups; `note` stands at the page's end."""

    stories: tuple[Story, ...]
    note: str = ""

    @classmethod
    def of_evidence(
        cls,
        evidence: Iterable[Evidence],
        *,
        options: StoryOptions = EVERYTHING,
        lag: Mapping[str, LagHistory] | None = None,
        note: str = "",
    ) -> Self:
        """The report of the groups in the evidence, from any source."""
        return cls(tuple(stories(evidence, options=options, lag=lag)), note)

    @classmethod
    def of_events(cls, events: Iterable[GroupEvent], *, lag: Mapping[str, LagHistory] | None = None, note: str = "") -> Self:
        """The report of all groups in an Ottla broker's events, e.g. those that `Broker(on_group_event=...)` has passed on."""
        found = (evidence_of_event(event, clock=BROKER_CLOCK) for event in events)
        return cls.of_evidence((each for each in found if each is not None), lag=lag, note=note)

    def html(self) -> str:
        """The page: write it to a file as UTF-8."""
        return report_page(self.stories, note=self.note)

    def to_dict(self) -> dict[str, Any]:
        """The stories as JSON-ready values."""
        return {"stories": [story.to_dict() for story in self.stories]}

    def show(self) -> None:
        """Show the report in a notebook; elsewhere, print what it says."""
        try:
            from IPython.display import display  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            print(self)  # noqa: T201
        else:
            display(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The page in a frame that may run its script and nothing else; below it the tables, for places that show no frame; and text."""
        frame = (
            f'<iframe sandbox="{_SANDBOX}" srcdoc="{escape(self.html())}" title="Report" width="100%" height="{FRAME_HEIGHT}" '
            'frameborder="0"></iframe>'
        )
        tables = "".join(f"{headline_html(each.document)}{advice_html(each.document)}{table_html(each.document)}" for each in self.stories)
        return {"text/html": f"{frame}\n<details><summary>As tables</summary>{tables}</details>", "text/plain": str(self)}

    def __str__(self) -> str:
        return "\n".join(_text(story.document) for story in self.stories) or "There is no rebalance in the evidence."


def _text(document: Mapping[str, Any]) -> str:
    rebalances = document["rebalances"]
    lines = [f"{document['group']}: {document['state']}. {document['headline']}"]
    lines += [f"  {glyph} {sentence}" for glyph, sentence in zip(rebalances["glyph"], rebalances["sentence"], strict=True)]
    return "\n".join(lines)
