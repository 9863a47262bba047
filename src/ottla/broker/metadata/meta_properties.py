"""`meta.properties`: the ids of cluster, node and data directory, as Kafka writes them; created at the first start (KIP-631, KIP-858).

Directories of other nodes and of clusters with ZooKeeper are refused. A file that another program wrote is kept, except that a missing
directory id is added.
"""

import base64
import binascii
import re
import uuid
from typing import NamedTuple

from ottla.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES,
    RECOVERY_POINT_FILE,
)
from ottla.log.file_system import Files
from ottla.metadata.quorum import BOOTSTRAP_SNAPSHOT
from ottla.protocol.errors import StorageError

_VERSION = "1"
_ID_BYTES = 16
_PARTITION_DIRECTORY = re.compile(r".+-[0-9]+")
_WRITTEN_LATER = frozenset(
    {BOOTSTRAP_SNAPSHOT, RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE, CLEAN_SHUTDOWN_FILE}
)
_NAMED_MAX = 3


class Identity(NamedTuple):
    """The cluster's id as text, and the directory's as 16 bytes. `is_new`: the directory was empty until now."""

    cluster_id: str
    directory_id: bytes
    is_new: bool


def is_partition_directory(name: str) -> bool:
    """Whether a directory is named like a partition's: `<topic>-<number>`."""
    return _PARTITION_DIRECTORY.fullmatch(name) is not None


def identify(files: Files, node_id: int) -> Identity:
    """Read the file, or create it. Raises StorageError, with what to do, for a directory that this node cannot open."""
    if not files.exists(META_PROPERTIES):
        _refuse_data(files)
        made = Identity(_id_text(_new_id()), _new_id(), is_new=True)
        _write(files, made, node_id)
        return made
    values = _parse(files.read_all(META_PROPERTIES))
    version = values.get("version")
    if version == "0" or "broker.id" in values:
        raise StorageError(
            f"{META_PROPERTIES} is of version 0, from a cluster with ZooKeeper: migrate it to KRaft with Apache Kafka 3.9 first"
        )
    if "cluster.id" not in values or version != _VERSION:
        raise StorageError(f"{META_PROPERTIES} names no cluster.id and version=1: this is no Kafka data directory, or the file is damaged")
    if values.get("node.id") != str(node_id):
        owner = values.get("node.id", "(not given)")
        raise StorageError(f"the data directory belongs to node {owner}, but this broker is node {node_id}: set node.id={owner}")
    if "directory.id" not in values:  # before Kafka 3.7 there were none
        found = Identity(values["cluster.id"], _new_id(), is_new=False)
        _write(files, found, node_id)
        return found
    return Identity(values["cluster.id"], _id_bytes(values["directory.id"]), is_new=False)


def _refuse_data(files: Files) -> None:
    """Refuse data without the file. It is the first file to be written, so it was lost, and the owner of the data is unknown."""
    data = [name for name in files.list("") if name in _WRITTEN_LATER or is_partition_directory(name)]
    if data:
        named = ", ".join(data[:_NAMED_MAX]) + (", ..." if len(data) > _NAMED_MAX else "")
        raise StorageError(
            f"{META_PROPERTIES} is missing, but the directory holds data ({named}): restore the file from a copy (its version, node.id,"
            " cluster.id and directory.id must be what they were); for a new cluster, choose an empty directory"
        )


def _write(files: Files, identity: Identity, node_id: int) -> None:
    lines = [
        f"version={_VERSION}",
        f"cluster.id={identity.cluster_id}",
        f"node.id={node_id}",
        f"directory.id={_id_text(identity.directory_id)}",
    ]
    files.replace(META_PROPERTIES, ("\n".join(lines) + "\n").encode())


def _parse(data: bytes) -> dict[str, str]:
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!"))]
    return {name.strip(): value.strip() for name, value in pairs}


def _new_id() -> bytes:
    """A random id whose text does not begin with "-", which command lines would take for an option."""
    while True:
        made = uuid.uuid4().bytes
        if not _id_text(made).startswith("-"):
            return made


def _id_text(identity: bytes) -> str:
    return base64.urlsafe_b64encode(identity).rstrip(b"=").decode()


def _id_bytes(text: str) -> bytes:
    try:
        found = base64.urlsafe_b64decode(text + "==")
    except (ValueError, binascii.Error):
        found = b""
    if len(found) != _ID_BYTES:
        raise StorageError(f"{META_PROPERTIES} holds an invalid directory.id: {text}")
    return found
