"""Detects that the data directory, or the file of a log, was deleted, moved or truncated while the broker runs.

An open file can be written to after it was deleted: without this, records would be acknowledged that no start finds again. The root is
checked once a second, and the active files of the logs that grew (of all logs when names in the root changed). A log whose file is missing
or too short goes offline as after a failed sync, and its high watermark is written at once, by which the next start knows what is missing.
Requests are not slowed down by it.
"""

import asyncio
import logging
from typing import Final, NamedTuple

from ottla.broker.clock import Sampler
from ottla.broker.partitions.offset_checkpoints import OffsetCheckpoints
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.log.checkpoints import HIGH_WATERMARK_FILE
from ottla.log.file_system import Files, Identity, LogFileChanged
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import NotAccessible, StorageError

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


class _Found(NamedTuple):
    """An active file, what had been `written` to it before it was looked at, and what was there then (no identity: nothing)."""

    log: PartitionLog
    file: str
    identity: Identity | None
    written: int
    size: int


class DirectoryWatch(Sampler):
    """`metadata_log`: the broker's own, which is no partition's."""

    subject = "the data directory"

    def __init__(self, files: Files, partitions: Partitions, metadata_log: PartitionLog, checkpoints: OffsetCheckpoints) -> None:
        super().__init__()
        self._files = files
        self._partitions = partitions
        self._metadata_log = metadata_log
        self._checkpoints = checkpoints
        self._seen: dict[PartitionLog, _Seen] = {}
        self._noted: set[PartitionLog] = set()
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
        except NotAccessible:
            raise  # it may be there
        except StorageError as error:
            self._fail_all(str(error))
            return
        looks_at_all, self._names = names != self._names, names
        logs = self._logs()
        self._seen = {each: seen for each, seen in self._seen.items() if each in logs}
        asked = [(each, *each.active_file) for each in logs if (looks_at_all or self._grew(each)) and each.active_file]
        for first in range(0, len(asked), _PER_ITERATION):
            for found in await run(None, self._look, asked[first : first + _PER_ITERATION]):
                self._check(found, logs[found.log])
        await self._note_failed()

    def _root_names(self) -> object:
        self._files.check_root()
        return self._files.names_state("")

    def _look(self, asked: list[tuple[PartitionLog, str, int]]) -> list[_Found]:
        found = []
        for each, file, written in asked:
            identity = self._files.identity(file)
            try:
                size = self._files.size(file)
            except StorageError:  # it is gone, perhaps only now: by its identity, here or at the next look
                size = written
            found.append(_Found(each, file, identity, written, size))
        return found

    async def _note_failed(self) -> None:
        """Write where the logs end that take no more records: their directories may not say so at the next start."""
        failed = {each.log: each.name for each in self._partitions.opened() if each.log.takes_no_more}
        for each in failed.keys() - self._noted:
            self._checkpoints.note(failed[each], each)
        if not failed.keys() <= self._noted:
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._checkpoints.write, (HIGH_WATERMARK_FILE,))
            except StorageError as error:
                log.error("%s", error)
        self._noted = set(failed)

    def _logs(self) -> dict[PartitionLog, Partition | None]:
        """Those that take records."""
        logs: dict[PartitionLog, Partition | None] = {each.log: each for each in self._partitions.opened()}
        logs[self._metadata_log] = None
        return {each: partition for each, partition in logs.items() if each.failure is None}

    def _grew(self, each: PartitionLog) -> bool:
        seen = self._seen.get(each)
        return seen is None or seen.end_offset != each.log_end_offset

    def _check(self, found: _Found, partition: Partition | None) -> None:
        """Runs on the loop: a file that the broker itself renamed meanwhile is no longer the active one, or belongs to a deleted topic."""
        each, file, identity, written, size = found
        if partition is not None and partition.deleted:
            return
        if each.active_file is None or each.active_file[0] != file or each.failure is not None:
            return
        seen = self._seen.get(each)
        if identity is None or not (seen is None or seen.file != file or seen.identity == identity):
            what = f"{file} is gone{self._acknowledged(each)}"
            reason = f"{what}: another program deleted or moved it or its directory; start the broker again"
        elif size < written:
            reason = str(LogFileChanged(file, size, written))
        else:
            self._seen[each] = _Seen(file, identity, each.log_end_offset)
            return
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
