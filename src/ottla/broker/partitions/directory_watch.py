"""Detects that the data directory, or the file of a log, was deleted or moved while the broker runs.

An open file can be written to after it was deleted: without this, records would be acknowledged that no start finds again. The root is
checked once a second, and the active files of the logs that grew (of all logs when names in the root changed). A log whose file is missing
goes offline as after a failed sync. Requests are not slowed down by it.
"""

import asyncio
import logging
from typing import Final, NamedTuple

from ottla.broker.clock import Sampler
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.log.file_system import Files, Identity
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import StorageError

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
"""Records that are acknowledged in this time after the deletion are lost with those before them: the line in the log names them."""
_NAMED_MAX: Final = 10
_PER_ITERATION: Final = 200


class _Seen(NamedTuple):
    """An active file, and the log's end when it was last there."""

    file: str
    identity: Identity
    end_offset: int


class DirectoryWatch(Sampler):
    """`metadata_log`: the broker's own, which is no partition's."""

    subject = "the data directory"

    def __init__(self, files: Files, partitions: Partitions, metadata_log: PartitionLog) -> None:
        super().__init__()
        self._files = files
        self._partitions = partitions
        self._metadata_log = metadata_log
        self._seen: dict[PartitionLog, _Seen] = {}
        self._names: object = None
        self._is_gone = False

    def pause_s(self) -> float:
        """The same after each look."""
        return INTERVAL_S

    async def sample(self) -> None:
        """Checks once; logs whose files are missing take no more records when this returns."""
        if self._is_gone:
            return
        run = asyncio.get_running_loop().run_in_executor
        try:
            names = await run(None, self._root_names)
        except StorageError as error:
            self._fail_all(str(error))
            return
        looks_at_all, self._names = names != self._names, names
        logs = self._logs()
        self._seen = {each: seen for each, seen in self._seen.items() if each in logs}
        files = [(each, each.active_file) for each in logs if looks_at_all or self._grew(each)]
        asked = [(each, file) for each, file in files if file is not None]
        for first in range(0, len(asked), _PER_ITERATION):
            for each, file, identity in await run(None, self._identities, asked[first : first + _PER_ITERATION]):
                self._check(each, file, identity, logs[each])

    def _root_names(self) -> object:
        self._files.check_root()
        return self._files.names_state("")

    def _identities(self, asked: list[tuple[PartitionLog, str]]) -> list[tuple[PartitionLog, str, Identity | None]]:
        return [(each, file, self._files.identity(file)) for each, file in asked]

    def _logs(self) -> dict[PartitionLog, Partition | None]:
        """Those that take records."""
        logs: dict[PartitionLog, Partition | None] = {each.log: each for each in self._partitions.opened()}
        logs[self._metadata_log] = None
        return {each: partition for each, partition in logs.items() if each.failure is None}

    def _grew(self, each: PartitionLog) -> bool:
        seen = self._seen.get(each)
        return seen is None or seen.end_offset != each.log_end_offset

    def _check(self, each: PartitionLog, file: str, identity: Identity | None, partition: Partition | None) -> None:
        """Runs on the loop: a file that the broker itself renamed meanwhile is no longer the active one, or belongs to a deleted topic."""
        if partition is not None and partition.deleted:
            return
        if each.active_file != file or each.failure is not None:
            return
        seen = self._seen.get(each)
        if identity is not None and (seen is None or seen.file != file or seen.identity == identity):
            self._seen[each] = _Seen(file, identity, each.log_end_offset)
            return
        reason = f"{file} is gone{self._acknowledged(each)}: another program deleted or moved it or its directory; start the broker again"
        each.fail(reason)
        if partition is not None:
            partition.report(StorageError(reason))
        else:
            log.error("%s", reason)

    def _acknowledged(self, each: PartitionLog) -> str:
        """The offsets that were acknowledged after the file was last there; all of the log where it was never checked."""
        seen, end_offset = self._seen.get(each), each.log_end_offset
        since = each.log_start_offset if seen is None else seen.end_offset
        return f" with offsets {since} to {end_offset - 1}, which may have been acknowledged after that" if since < end_offset else ""

    def _fail_all(self, reason: str) -> None:
        """One line for all of them."""
        self._is_gone = True
        logs = self._logs()
        grown = [f"{each.directory}{self._acknowledged(each)}" for each in logs if self._grew(each) and self._acknowledged(each)]
        more = ", ..." if len(grown) > _NAMED_MAX else ""
        log.error("%s. %d logs take no more records%s%s", reason, len(logs), "".join(f", {each}" for each in grown[:_NAMED_MAX]), more)
        for each, partition in logs.items():
            each.fail(reason)
            if partition is not None:
                partition.set_reported(reason)
