"""A stream's checkpoint for Spark's own Kafka source: its offsets without what the format "ottla" adds to them, the topics' ids.

Spark's log of offsets has a file for each micro-batch: a line with its version, one with JSON about the batch, then the offsets of each
source, in version 2 behind the source's name and a colon. Only lines with topics' ids change; those of other sources stay as they are.
Spark reads a batch's offsets at the next start only, so the query must have stopped.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.protocol.model import TopicPartition
from ottla.spark.source.planning import MEMBER, TOPIC_IDS, CheckpointError, from_json

_VERSIONS: Final = (b"v1", b"v2")
_BATCH: Final = re.compile(r"\d+")
_WITH_IDS: Final = re.compile(rb"(?P<source>[^{]*:)?(?P<offsets>\{.*\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What a checkpoint's log of offsets is without topics' ids: `files` are those that change, with their new content.

    `offsets`: where the sources with ids continue, behind the last batch that the query has planned; `is_done`: whether it has ended.
    """

    batches: int
    last: int
    is_done: bool
    offsets: Mapping[TopicPartition, int]
    files: Mapping[Path, bytes]

    def write(self) -> None:
        """Replace the files, one after the other; the conversion can be repeated after an interruption. Raises OSError."""
        for path, content in self.files.items():
            # Hadoop's checksum of the old content. Without one, Spark reads the file as it is.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            new = path.with_name(f".{path.name}.ottla.tmp")
            new.write_bytes(content)
            new.chmod(path.stat().st_mode)
            new.replace(path)


def convert(directory: Path) -> Conversion:
    """The conversion of the checkpoint in a directory; nothing is written. Raises CheckpointError with a sentence, or OSError."""
    log = directory / "offsets"
    batches = {int(path.name): path for path in log.iterdir() if _BATCH.fullmatch(path.name)} if log.is_dir() else {}
    if not batches:
        raise CheckpointError(f"{directory} is no checkpoint of a stream that has planned a micro-batch: it has no files in offsets/")
    last = max(batches)
    is_done = (directory / "commits" / str(last)).exists()
    files: dict[Path, bytes] = {}
    offsets: dict[TopicPartition, int] = {}
    for _, path in sorted(batches.items()):
        content, offsets = _without_ids(path)
        if content is not None:
            files[path] = content
    if last == 0 and not is_done and files:
        raise CheckpointError(
            "the first micro-batch has not ended, and the checkpoint does not say where it began: run the query once more with the format"
            ' "ottla" until a batch has ended, or start it with Spark\'s own source and a new checkpointLocation'
        )
    return Conversion(batches=len(batches), last=last, is_done=is_done, offsets=offsets, files=files)


def _without_ids(path: Path) -> tuple[bytes | None, dict[TopicPartition, int]]:
    """The file's content without topics' ids, None where it has none; and the offsets of the sources that are this project's or Kafka's."""
    lines = path.read_bytes().split(b"\n")
    if lines[0] not in _VERSIONS or len(lines) < 3:
        raise CheckpointError(f"{path} is not a file of Spark's log of offsets that this version knows: it begins with {lines[0][:20]!r}")
    offsets: dict[TopicPartition, int] = {}
    is_changed = False
    for number, line in enumerate(lines[2:], 2):
        found = _WITH_IDS.fullmatch(line)
        value = _object(found["offsets"]) if found else None
        if found is None or value is None or TOPIC_IDS not in value:
            continue
        if MEMBER in value:
            raise CheckpointError(
                'this checkpoint is one of a query with "ottla.group.mode" = "member", which has the offsets of the partitions that the'
                " query owned, and not of the others: start the query with a new checkpointLocation, and with the group's committed offsets"
                " (`ottla groups --describe`) as startingOffsets"
            )
        offsets |= from_json(value).by_partition
        del value[TOPIC_IDS]
        lines[number] = (found["source"] or b"") + json.dumps(value, separators=(",", ":")).encode()
        is_changed = True
    return b"\n".join(lines) if is_changed else None, offsets


def _object(text: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
