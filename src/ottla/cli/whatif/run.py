"""One run of `ottla whatif`: reads the sources, replays the group, prints what changes."""

import json
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final, TextIO

from ottla.cli.diagnose.gathering import SourceOptions, gather
from ottla.cli.diagnose.offsets_topic import SourceError
from ottla.cli.diagnose.run import NO_SOURCE
from ottla.cli.groups.failures import CommandFailed, of_error
from ottla.cli.whatif.json_report import to_dict
from ottla.cli.whatif.text import text
from ottla.client.errors import ClientError
from ottla.core.diagnosis.evidence.model import Evidence
from ottla.core.errors import PeerError
from ottla.core.text import printable
from ottla.core.whatif.prediction import find_settings, predict
from ottla.core.whatif.settings import RECORDED_DEFAULTS, Settings, merge

OK: Final = 0
FAILED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatifOptions:
    """What to read and what to ask: `settings` for a prediction, or (`at_most` is not None) a search."""

    sources: SourceOptions
    group: str
    settings: Settings
    recorded: Settings
    at_most: float | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    as_json: bool = False


def run(options: WhatifOptions, *, zone: tzinfo, out: TextIO, err: TextIO) -> int:
    """Print the report; returns the exit status. `zone`: of times without one."""
    if not options.sources.names_a_source:
        err.write(f"Error: {NO_SOURCE}\n")
        return FAILED
    try:
        gathered = gather(options.sources, zone=zone)
        lines = answer(options, gathered.evidence)
    except (SourceError, CommandFailed, ValueError) as error:
        err.write(f"Error: {printable(str(error))}\n")
        return FAILED
    except (ClientError, PeerError) as error:
        err.write(f"Error: {printable(str(of_error(error)))}\n")
        return FAILED
    out.writelines(f"{line}\n" for line in lines)
    err.writelines(f"{note}\n" for note in gathered.notes)
    return OK


def answer(options: WhatifOptions, evidence: list[Evidence]) -> list[str]:
    """The lines of the report. Raises ValueError where the evidence does not allow a replay."""
    wanted = [item for item in evidence if _is_wanted(item.at_ms, options)]
    recorded = merge(RECORDED_DEFAULTS, options.recorded)
    if options.at_most is None:
        found = predict(options.group, wanted, options.settings, recorded)
    else:
        found = find_settings(options.group, wanted, at_most=options.at_most, recorded=recorded)
    return [json.dumps(to_dict(found))] if options.as_json else list(text(found))


def _is_wanted(at_ms: int, options: WhatifOptions) -> bool:
    return (options.since_ms is None or at_ms >= options.since_ms) and (options.until_ms is None or at_ms < options.until_ms)
