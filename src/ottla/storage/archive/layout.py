"""Where things are in an archive of `ottla watch` (docs/watch.md), and its `archive.json`: of which topics it is, and of which groups."""

import json
from dataclasses import dataclass
from typing import Any, Final

from ottla.core.errors import StorageError
from ottla.storage.file_system import Files
from ottla.storage.log.segment_facts import Readable

MANIFEST_FILE: Final = "archive.json"
SNAPSHOTS_FOLDER: Final = "snapshots"
FORMAT: Final = 1
_MANIFEST_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`topic_ids`: of the topics in the archive, by name; no two clusters have the same. `groups`: None for all."""

    created_ms: int
    groups: tuple[str, ...] | None = None
    topic_ids: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> bytes:
        """The file's contents."""
        fields = {
            "format": FORMAT,
            "created_ms": self.created_ms,
            "groups": None if self.groups is None else list(self.groups),
            "topic_ids": dict(self.topic_ids),
        }
        return json.dumps(fields, indent=2).encode() + b"\n"


def read_manifest(files: Readable) -> Manifest | None:
    """The manifest of an archive; None where there is no archive. Raises StorageError for one that cannot be read."""
    if not files.exists(MANIFEST_FILE):
        return None
    try:
        fields: Any = json.loads(files.read_range(MANIFEST_FILE, 0, _MANIFEST_BYTES_MAX))
        if fields["format"] != FORMAT:
            raise StorageError(f"{MANIFEST_FILE} is of format {fields['format']}, which a later version of Ottla wrote")
        return Manifest(
            created_ms=int(fields["created_ms"]),
            groups=None if fields["groups"] is None else tuple(map(str, fields["groups"])),
            topic_ids=tuple((str(name), str(topic_id)) for name, topic_id in dict(fields["topic_ids"]).items()),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise StorageError(f"{MANIFEST_FILE} is damaged: this is no archive of ottla watch") from error


def write_manifest(files: Files, manifest: Manifest) -> None:
    """Replace the manifest, at once or not at all."""
    files.replace(MANIFEST_FILE, manifest.to_json())
