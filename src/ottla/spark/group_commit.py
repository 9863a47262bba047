"""Commits to a group what a streaming query has durably processed, so that every tool that shows the lag of groups sees the query.

The checkpoint stays the truth: what is committed here is never read back by a running query, and trouble never ends one. It is counted,
told by `metrics`, and retried with the offsets of a later offer. `CommitPlan` decides, without a clock or a broker; `GroupCommitter` asks
the coordinator, for a short time only, since a trigger waits for it. Nobody joins the group: where it has members of its own, the
coordinator refuses, and that is shown, not fought.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ottla.consumer.admin.client import AdminClient
from ottla.consumer.admin.values import Failure
from ottla.consumer.errors import ClientError
from ottla.consumer.settings import ClientSettings
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import TopicPartition

GROUP_COMMIT: Final = "#group_commit"
"""Beside the topics in the JSON of a query's progress: what `metrics` tells. No topic can be called so."""
COMMIT_MS_MAX: Final = 1_500
"""A trigger waits for a commit, and a dead coordinator must not stall it."""
LAST_COMMIT_MS_MAX: Final = 5_000
"""Nothing waits for the last commit of a query but its end, and it is what stays."""
BACKOFF_MS: Final = 1_000
BACKOFF_MS_MAX: Final = 60_000
"""After failures in a row: at most COMMIT_MS_MAX of every minute are spent on a coordinator that does not answer."""
REFRESH_MS: Final = 600_000
"""Offsets of a group without members expire (offsets.retention.minutes), may be reset from outside, or be deleted with the group."""
CONFIRM_MS: Final = 10_000
"""A commit that got no answer in its time may still arrive, later than the one that followed it: all is then committed once more."""

Offsets = Mapping[TopicPartition, int]
"""The next offset to read of each partition."""
Results = Mapping[TopicPartition, Failure | None] | Failure
"""None for each partition that is done; one Failure for all."""
Commit = Callable[[Offsets, int], Results]
"""Commits offsets in at most so many ms. Raises ClientError, PeerError or OSError."""

log = logging.getLogger("ottla.spark")


class CommitPlan:
    """What to commit now, and when to try again. Times are ms of any clock that only goes forward.

    Offsets are committed as they are offered, also when they are lower than before: a stream goes back only where its checkpoint or its
    topic did, and then the records are really processed again. Retries take the newest offer, so no old one ever overwrites a newer.
    """

    def __init__(self) -> None:
        self._initial: Offsets | None = None
        self._granted: dict[TopicPartition, int] = {}
        self._refresh_at_ms = 0
        self._not_before_ms = 0
        self.commits = 0
        self.failures = 0
        self.failures_in_row = 0
        self.last_error = ""

    def begin(self, offsets: Offsets) -> None:
        """Where a new query starts: nothing before it was processed by this query, so it is never committed as such."""
        self._initial = dict(offsets)

    def due(self, offsets: Offsets, now_ms: int, *, is_last: bool = False) -> Offsets:
        """What of `offsets`, all of them processed, is to be committed now: what changed, everything when it was long ago, or nothing.

        `is_last`: nobody offers again, so that a pause after failures would last for ever.
        """
        if offsets == self._initial or (now_ms < self._not_before_ms and not is_last):
            return {}
        self._initial = None
        if now_ms >= self._refresh_at_ms:
            return offsets
        return {partition: offset for partition, offset in offsets.items() if self._granted.get(partition) != offset}

    def settle(self, asked: Offsets, failures: Mapping[TopicPartition, Failure], now_ms: int) -> None:
        """What became of the offsets of `due`: those without a failure are the group's now."""
        self._granted.update({partition: offset for partition, offset in asked.items() if partition not in failures})
        if not failures:
            # After trouble sooner than otherwise, once: CONFIRM_MS says why.
            self._refresh_at_ms = now_ms + (CONFIRM_MS if self.failures_in_row else REFRESH_MS)
            self.commits += 1
            self.failures_in_row = 0
            return
        pause_ms = min(BACKOFF_MS_MAX, BACKOFF_MS << min(self.failures_in_row, 10))
        self._not_before_ms = now_ms + pause_ms
        self._refresh_at_ms = min(self._refresh_at_ms, self._not_before_ms)
        self.failures += 1
        self.failures_in_row += 1


class GroupCommitter:
    """Commits to `group`; made where the query is planned, with sockets of its own from the first commit on. Not for two threads at once.

    `commit` and `clock` (seconds) are for tests.
    """

    def __init__(
        self, client: ClientSettings, group: str, *, commit: Commit | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.group = group
        self._client = client
        self._commit = commit or self._ask
        self._clock = clock
        self._plan = CommitPlan()
        self._admin: AdminClient | None = None

    def begin(self, offsets: Offsets) -> None:
        """Says where a new query starts, which is not committed."""
        self._plan.begin(offsets)

    def offer(self, offsets: Offsets, *, is_last: bool = False) -> None:
        """Commits what changed in `offsets`, all of which is durably processed.

        Takes at most COMMIT_MS_MAX, the last one LAST_COMMIT_MS_MAX. Never raises: see `metrics`.
        """
        asked = self._plan.due(offsets, self._now_ms(), is_last=is_last)
        if not asked:
            return
        try:
            results = self._commit(asked, LAST_COMMIT_MS_MAX if is_last else COMMIT_MS_MAX)
        except (ClientError, PeerError, OSError) as error:
            results = Failure(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
        failures = _failures(asked, results)
        had_trouble = self._plan.failures_in_row > 0
        self._plan.settle(asked, failures, self._now_ms())
        if failures:
            partition, failure = next(iter(failures.items()))
            text = _in_words(self.group, partition, failure)
            self._tell(text, had_trouble and text == self._plan.last_error)
        elif had_trouble:
            log.warning("offsets are committed to the group %s again", self.group)

    def decline(self, reason: str) -> None:
        """Counts offsets that whoever would offer them must not commit, and says why."""
        self._plan.failures += 1
        self._tell(reason, self._plan.last_error == reason)

    def metrics(self) -> Mapping[str, int | str]:
        """How it went so far: commits that were granted, failures, failures in a row (0: all is well), the last error in words."""
        plan = self._plan
        return {
            "group": self.group,
            "commits": plan.commits,
            "failures": plan.failures,
            "failures_in_row": plan.failures_in_row,
            "last_error": plan.last_error,
        }

    def close(self) -> None:
        """Close the connections; another offer opens new ones."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _tell(self, text: str, is_known: bool) -> None:
        self._plan.last_error = text
        if not is_known:
            log.warning("offsets were not committed to the group %s, which the query survives: %s", self.group, text)

    def _ask(self, offsets: Offsets, timeout_ms: int) -> Results:
        if timeout_ms != COMMIT_MS_MAX:
            self.close()  # a client has one time for all its questions
        if self._admin is None:
            self._admin = AdminClient(replace(self._client, default_api_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms))
        # No metadata and no leader epoch, as consumers without an epoch do: the epoch belongs to the last record that was read, and whoever
        # plans a query has not read it. A wrong one would be taken for a truncated log.
        return self._admin.commit(self.group, offsets)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _failures(asked: Offsets, results: Results) -> dict[TopicPartition, Failure]:
    if isinstance(results, Failure):
        return dict.fromkeys(asked, results)
    silent = Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator did not answer for it")
    answers = {partition: results.get(partition, silent) for partition in asked}
    return {partition: failure for partition, failure in answers.items() if failure is not None}


def _in_words(group: str, partition: TopicPartition, failure: Failure) -> str:
    if failure.code is ErrorCode.UNKNOWN_MEMBER_ID:
        return f'the group {group} has members, and takes offsets from nobody else: give the query another "group.id", or end them'
    what = failure.message or failure.code.name
    return f"{partition.topic}-{partition.partition}: {what}"
