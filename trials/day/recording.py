"""A recorded day: what an operator has of it, packed, and its ledger. Small enough to be kept, so that it can be scored again."""

from pathlib import Path

from trials.day.ledger import Day
from trials.incidents.corpus import broker_lines, mask, secrets_of, unpack, write_tar

LEDGER, PACKED = "ledger.json", "sources.tar.xz"
BROKER_LOG, CLIENTS, ARCHIVE = "broker.log", "clients", "archive"


def write_day(day: Day, directory: Path, output: Path) -> None:
    """Pack the sources of a day that happened in `directory`. Nothing in them names the machine."""
    sources, secrets = directory / "sources", secrets_of(directory)
    files: dict[str, bytes] = {}
    for path in sorted(sources.rglob("*")):
        name = str(path.relative_to(sources))
        if path.is_dir() or not path.stat().st_size:
            continue
        if name == BROKER_LOG:
            with path.open(errors="replace") as lines:
                files[name] = mask("".join(broker_lines(lines)), secrets).encode()
        elif name.startswith(CLIENTS):
            files[name] = mask(path.read_text(errors="replace"), secrets).encode()
        else:
            files[name] = path.read_bytes()
    output.mkdir(parents=True, exist_ok=True)
    write_tar(output / PACKED, files)
    day.write(output / LEDGER)


def read_day(output: Path, directory: Path) -> Day:
    """The ledger of a recorded day; its sources are unpacked into `directory`."""
    unpack(output / PACKED, directory)
    return Day.read(output / LEDGER)
