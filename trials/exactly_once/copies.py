"""What must hold of copies within transactions: each input once, transactions whole, nothing of aborted ones, offsets with their output."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trials.harness.oracle import Place


class Output(NamedTuple):
    """A record of the output: where it lies, of which input it is the copy, and which transaction wrote it."""

    partition: int
    offset: int
    source: Place
    value: str
    transaction: str


def read_output(partition: int, offset: int, text: bytes) -> Output:
    """What a copier wrote."""
    source_partition, source_offset, value, transaction = text.decode().split(" ")
    return Output(partition, offset, (int(source_partition), int(source_offset)), value, transaction)


class Outcomes(NamedTuple):
    """What copiers know of their transactions, by name. Those that are in neither set ended without a word."""

    committed: set[str]
    aborted: set[str]
    trouble: list[str]


def read_journals(paths: Iterable[Path]) -> Outcomes:
    """The journals of all copiers; a torn last line, from one that was killed, does not count."""
    outcomes = Outcomes(set(), set(), [])
    for path in paths:
        text = path.read_text() if path.exists() else ""
        for line in text[: text.rfind("\n") + 1].splitlines():
            outcome, _, number = line.partition(" ")
            if outcome == "!":
                outcomes.trouble.append(f"{path.parent.name}: {number}")
            elif outcome != "begun":
                getattr(outcomes, outcome).add(f"{path.parent.name}/{number}")
    return outcomes


def wrong_copies(acknowledged: Mapping[Place, str], outputs: Sequence[Output]) -> list[str]:
    """Inputs that are not there exactly once, copies of nothing, and copies that came before an earlier one of their input partition."""
    by: dict[Place, list[str]] = defaultdict(list)
    for output in outputs:
        by[output.source].append(output.transaction)
    wrong = [
        f"input {place} is there {len(by[place])} times{''.join(f' {name}' for name in by[place])}"
        for place in acknowledged
        if len(by[place]) != 1
    ]
    wrong += [f"{output} is no copy" for output in outputs if acknowledged.get(output.source) != output.value]
    last: dict[tuple[int, int], int] = {}
    for output in sorted(outputs):
        key = output.partition, output.source[0]
        if output.source[1] < last.get(key, -1):
            wrong.append(f"{output} came after the copy of offset {last[key]}")
        last[key] = max(output.source[1], last.get(key, -1))
    return wrong


def wrong_transactions(outputs: Sequence[Output], everything: Sequence[Output], outcomes: Outcomes) -> list[str]:
    """Transactions that were aborted and read, committed and not read, or read in part. `everything`: what was ever written."""
    written, read = (Counter(output.transaction for output in found) for found in (everything, outputs))
    wrong = [f"{name} was aborted, and {read[name]} of its records are read" for name in outcomes.aborted if read[name]]
    wrong += [f"{name} was committed, and {written[name] - read[name]} of its records are missing" for name in outcomes.committed
              if read[name] != written[name]]  # fmt: skip
    wrong += [f"{name} is torn: {count} of {written[name]} records are read" for name, count in read.items() if count != written[name]]
    return sorted(set(wrong))


def wrong_early(seen: Iterable[Output], outputs: Sequence[Output]) -> list[str]:
    """Records that a read_committed consumer got meanwhile, and that are not committed in the end."""
    committed = set(outputs)
    return [f"{output} was read, and is not committed" for output in seen if output not in committed]


def wrong_offsets(samples: Sequence[Mapping[int, int]], ends: Mapping[int, int]) -> list[str]:
    """Committed offsets that went back from one sample to a later one, or that are not the input's ends in the last one."""
    wrong: list[str] = []
    highest: dict[int, int] = {}
    for sample in samples:
        for partition, offset in sample.items():
            if offset < highest.get(partition, 0):
                wrong.append(f"the offset of partition {partition} went back from {highest[partition]} to {offset}")
            highest[partition] = max(offset, highest.get(partition, 0))
    last = samples[-1] if samples else {}
    return wrong + [f"partition {each} is committed to {last.get(each)} of {end}" for each, end in ends.items() if last.get(each) != end]
