"""Commits to a group what a streaming query has durably processed, so that every tool that shows the lag of groups sees the query.

The checkpoint is what counts: a running query never reads back what is committed here, and a failed commit never ends a query. Failures are
counted (`metrics`) and retried with the offsets of a later offer. `CommitSchedule` decides, without a clock or a broker. `GroupCommitter`
calls the coordinator, with a short timeout since a trigger waits for it. It does not join the group: where the group has members of its
own, the coordinator refuses the commit, and `metrics` shows that.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition

GROUP_COMMIT: Final = "#group_commit"
"""The key of `metrics` in the JSON of a query's progress, beside the topics. It is not a valid topic name."""
COMMIT_MS_MAX: Final = 1_500
"""The timeout of a commit: a trigger waits for it, and a dead coordinator must not stall it."""
LAST_COMMIT_MS_MAX: Final = 5_000
"""The timeout of the last commit of a query, which no trigger waits for."""
BACKOFF_MS: Final = 1_000
BACKOFF_MS_MAX: Final = 60_000
"""After failures in a row: at most COMMIT_MS_MAX of every minute are spent on a coordinator that does not answer."""
REFRESH_MS: Final = 600_000
"""All offsets are committed again after so long: without members they expire, may be reset from outside, or be deleted with the group."""
CONFIRM_MS: Final = 10_000
"""After failures all offsets are committed once more: a request that timed out may still arrive, after a later one."""

Offsets = Mapping[TopicPartition, int]
"""The next offset to read of each partition."""
Results = Mapping[TopicPartition, Failure | None] | Failure
"""None for each committed partition; one Failure for all."""
Commit = Callable[[Offsets, int], Results]
"""Commits offsets in at most so many ms. Raises ClientError, PeerError or OSError."""

log = logging.getLogger(__name__)


class CommitSchedule:
    """What to commit now, and when to retry. Times are in ms of a monotonic clock.

    Offered offsets are committed also when they are lower than before: a stream goes back only where its checkpoint or its topic did, and
    then it processes the records again. Retries use the newest offer, so that an old one never overwrites a newer one.
    """

    def __init__(self) -> None:
        self._initial: Offsets | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._refresh_at_ms = 0
        self._retry_at_ms = 0
        self.commits = 0
        self.failures = 0
        self.failures_in_row = 0
        self.last_error = ""

    def begin(self, offsets: Offsets) -> None:
        """Set where a new query starts; these offsets alone are never committed, since the query has not processed anything before them."""
        self._initial = dict(offsets)

    def due(self, offsets: Offsets, now_ms: int, *, is_last: bool = False) -> Offsets:
        """The part of the processed `offsets` to commit now: those that changed, or all after REFRESH_MS, or none.

        `is_last`: there will be no other offer, so do not wait for a back-off.
        """
        if offsets == self._initial or (now_ms < self._retry_at_ms and not is_last):
            return {}
        self._initial = None
        if now_ms >= self._refresh_at_ms:
            return offsets
        return {partition: offset for partition, offset in offsets.items() if self._committed.get(partition) != offset}

    def record_results(self, asked: Offsets, failures: Mapping[TopicPartition, Failure], now_ms: int) -> None:
        """Record the results of a commit of the offsets from `due`."""
        self._committed.update({partition: offset for partition, offset in asked.items() if partition not in failures})
        if not failures:
            # Once after failures, sooner than otherwise: see CONFIRM_MS.
            self._refresh_at_ms = now_ms + (CONFIRM_MS if self.failures_in_row else REFRESH_MS)
            self.commits += 1
            self.failures_in_row = 0
            return
        pause_ms = min(BACKOFF_MS_MAX, BACKOFF_MS << min(self.failures_in_row, 10))
        self._retry_at_ms = now_ms + pause_ms
        self._refresh_at_ms = min(self._refresh_at_ms, self._retry_at_ms)
        self.failures += 1
        self.failures_in_row += 1


class GroupCommitter:
    """Commits to `group`; used by the planner, with connections of its own from the first commit on. Not for two threads at once.

    `commit` and `clock` (seconds) are for tests.
    """

    def __init__(
        self, client: ClientSettings, group: str, *, commit: Commit | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.group = group
        self._client = client
        self._commit = commit or self._call
        self._clock = clock
        self._schedule = CommitSchedule()
        self._admin: AdminClient | None = None

    def begin(self, offsets: Offsets) -> None:
        """Set where a new query starts, which is not committed."""
        self._schedule.begin(offsets)

    def offer(self, offsets: Offsets, *, is_last: bool = False) -> None:
        """Commit what changed in the `offsets`, which are durably processed.

        Takes at most COMMIT_MS_MAX, the last one LAST_COMMIT_MS_MAX. Never raises: see `metrics`.
        """
        asked = self._schedule.due(offsets, self._now_ms(), is_last=is_last)
        if not asked:
            return
        try:
            results = self._commit(asked, LAST_COMMIT_MS_MAX if is_last else COMMIT_MS_MAX)
        except (ClientError, PeerError, OSError) as error:
            results = Failure(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
        failures = _failures(asked, results)
        had_failures = self._schedule.failures_in_row > 0
        self._schedule.record_results(asked, failures, self._now_ms())
        if failures:
            partition, failure = next(iter(failures.items()))
            text = _message(self.group, partition, failure)
            self._warn(text, had_failures and text == self._schedule.last_error)
        elif had_failures:
            log.warning("offsets are committed to the group %s again", self.group)

    def reject(self, reason: str) -> None:
        """Count offsets that the caller must not commit, with the reason."""
        self._schedule.failures += 1
        self._warn(reason, self._schedule.last_error == reason)

    def metrics(self) -> Mapping[str, int | str]:
        """Counts of commits, failures, and failures in a row (0: the last commit succeeded), and the last error message."""
        schedule = self._schedule
        return {
            "group": self.group,
            "commits": schedule.commits,
            "failures": schedule.failures,
            "failures_in_row": schedule.failures_in_row,
            "last_error": schedule.last_error,
        }

    def close(self) -> None:
        """Close the connections; another offer opens new ones."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _warn(self, text: str, is_known: bool) -> None:
        self._schedule.last_error = text
        if not is_known:
            log.warning("offsets were not committed to the group %s; the query continues: %s", self.group, text)

    def _call(self, offsets: Offsets, timeout_ms: int) -> Results:
        if timeout_ms != COMMIT_MS_MAX:
            self.close()  # a client has one timeout for all its calls
        if self._admin is None:
            self._admin = AdminClient(replace(self._client, default_api_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms))
        # No metadata and no leader epoch, as consumers without an epoch do: the epoch is that of the last record that was read, and the
        # planner has not read it. Consumers would take a wrong one for a truncated log.
        return self._admin.commit(self.group, offsets)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _failures(asked: Offsets, results: Results) -> dict[TopicPartition, Failure]:
    if isinstance(results, Failure):
        return dict.fromkeys(asked, results)
    missing = Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator did not answer for it")
    answers = {partition: results.get(partition, missing) for partition in asked}
    return {partition: failure for partition, failure in answers.items() if failure is not None}


def _message(group: str, partition: TopicPartition, failure: Failure) -> str:
    if failure.code is ErrorCode.UNKNOWN_MEMBER_ID:
        return f'the group {group} has members, and accepts offsets from them only: give the query another "group.id", or stop them'
    what = failure.message or failure.code.name
    return f"{partition.topic}-{partition.partition}: {what}"
