"""A partition's directory, with the file that names its topic.

A log makes it with its first record, and never again while it is open: if it is missing then, another program deleted it.
"""

from uuid import UUID

from ottla.storage.checkpoints import METADATA_FILE, encode_partition_metadata
from ottla.storage.files import Files


def make_partition(files: Files, directory: str, topic_id: UUID | None) -> None:
    """Make the directory, and `partition.metadata` in it, where they are missing. Raises StorageError."""
    files.make_directory(directory)
    metadata = f"{directory}/{METADATA_FILE}"
    if topic_id is not None and not files.exists(metadata):
        files.replace(metadata, encode_partition_metadata(topic_id), sync=False)
