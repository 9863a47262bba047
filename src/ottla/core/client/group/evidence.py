"""What one consumer measures about its membership, kept until it is needed to say why the membership was lost; and what it logs.

The membership and the shell report; `explanations` decides. Joins, leaves and losses are logged in the words of Kafka's Java client, so
that tools which read its logs understand these. Times are milliseconds of a clock that never jumps.
"""

from collections import deque
from typing import Final

from ottla.core.client.group.explanations import (
    Explanation,
    Measurements,
    explain_late_poll,
    explain_next_poll,
    explain_removal,
    explain_silence,
    explain_stall,
)
from ottla.core.client.group.poll_meter import PollMeter
from ottla.core.client.group.stalls import STALL_MS_MIN, Lateness, StallHistory
from ottla.core.client.group.values import GroupSettings
from ottla.core.client.sensors import Sensor
from ottla.core.reason_evidence import with_evidence

HEARTBEAT: Final = "HEARTBEAT"
LOG_LINES_MAX: Final = 100


def generation_text(generation: int, member_id: str, protocol: str) -> str:
    """As Kafka's Java client writes it."""
    return f"Generation{{generationId={generation}, memberId='{member_id}', protocol='{protocol}'}}"


class Evidence:
    """`log_lines`: what was not logged yet, warnings as explanations, all else as texts. `text`: what the reasons of the next JoinGroup and
    LeaveGroup have in brackets.
    """

    def __init__(self, settings: GroupSettings, *, now_ms: float) -> None:
        self.log_lines: deque[Explanation | str] = deque(maxlen=LOG_LINES_MAX)
        self.text = ""
        self.failure = ""
        self.polls = PollMeter(now_ms)
        self.stalls = StallHistory()
        self.stall_times = Sensor(now_ms)
        self.heartbeat_delays = Sensor(now_ms)
        self.heartbeat_sent_ms: float | None = None
        self._settings = settings
        self._answered_ms = self._responded_ms = now_ms
        self._silence_ms = 0.0
        self._rejoin_due_ms: float | None = None
        self._joining_ms: float | None = None

    # What happens.

    def responded(self, now_ms: float) -> None:
        """A broker has answered a request."""
        self._silence_ms = max(self._silence_ms, now_ms - self._responded_ms)
        self._responded_ms = now_ms

    def stalled(self, late: Lateness, now_ms: float) -> None:
        """The consumer ran late."""
        if late.late_ms < STALL_MS_MIN:
            return
        cause = self.stalls.add(late, now_ms)
        self.stall_times.record(late.late_ms, now_ms)
        if late.late_ms >= (self._settings.heartbeat_interval_ms if late.is_loop else self._settings.session_timeout_ms / 3):
            self.log_lines.append(explain_stall(self._settings, cause, late.late_ms))

    def heartbeat_sent(self, due_ms: float, now_ms: float) -> None:
        """A heartbeat is on its way; it was due at `due_ms`."""
        self.heartbeat_delays.record(max(now_ms - due_ms, 0.0), now_ms)
        self.heartbeat_sent_ms = now_ms

    def heartbeat_answered(self, now_ms: float, *, is_rejoin_due: bool) -> None:
        """The coordinator knows the member; `is_rejoin_due`: the group rebalances, and the application has to poll before it can join."""
        # The coordinator waits for the next one from when it got this one, whenever the response is read.
        self._answered(max(self._answered_ms, now_ms if self.heartbeat_sent_ms is None else self.heartbeat_sent_ms))
        if is_rejoin_due and self._rejoin_due_ms is None:
            self._rejoin_due_ms = now_ms

    def prepared(self) -> None:
        """The application has done its part of a rebalance."""
        self._rejoin_due_ms = None

    def joining(self, now_ms: float) -> None:
        """A JoinGroup is on its way, which the coordinator may hold: no heartbeats are due meanwhile."""
        if self._joining_ms is None:
            self._joining_ms = now_ms

    def joined(self, generation: str, now_ms: float) -> None:
        """JoinGroup succeeded; `generation` as `generation_text` has it."""
        self.log_lines.append(f"Successfully joined group with generation {generation}")
        self._answered(now_ms)

    def assigned(self, generation: str) -> None:
        """The rebalance is over: reasons say nothing more about what led to it."""
        self.log_lines.append(f"Successfully synced group in generation {generation}")
        self.text = ""

    def rejoin_requested(self, reason: str) -> None:
        """The member is going to join again."""
        self.log_lines.append(f"Request joining group due to: {with_evidence(reason, self.text)}")

    def leaving(self, member_id: str, coordinator: int, reason: str) -> None:
        """The member sends LeaveGroup."""
        self.log_lines.append(f"Member {member_id} sending LeaveGroup request to coordinator {coordinator} due to {reason}")

    # What is lost.

    def poll_expired(self, polled_ms: float, now_ms: float) -> None:
        """The member leaves: the application has not polled since `polled_ms`."""
        self._explain(explain_late_poll(self._since_poll(polled_ms, now_ms)))

    def polled_late(self, polled_ms: float, now_ms: float) -> None:
        """The application polls for the first time after that."""
        self._explain(explain_next_poll(self._since_poll(polled_ms, now_ms)))

    def session_over(self, now_ms: float) -> None:
        """No heartbeat was answered for session.timeout.ms."""
        cause = "session timed out without receiving a heartbeat response"
        self.log_lines.append(f"Group coordinator is unavailable or invalid due to cause: {cause}. Rediscovery will be attempted.")
        self._explain(explain_silence(self._since_heartbeat(now_ms)))

    def removed(self, error: str, api: str, generation: str, polled_ms: float, now_ms: float) -> None:
        """The coordinator answers a request with an error that means that it has no such member."""
        if api == HEARTBEAT:
            failed = f"Attempt to heartbeat with {generation} and group instance id {self._settings.instance_id or '(not set)'}"
            self.log_lines.append(f"{failed} failed due to {error}, resetting generation")
        else:
            self.log_lines.append(f"Resetting generation due to: encountered {error} from {api} response")
        measured = self._since_heartbeat(now_ms) if self._rejoin_due_ms is None else self._since_poll(polled_ms, now_ms)
        self._explain(explain_removal(measured, error, api))
        self._rejoin_due_ms = None

    def _answered(self, now_ms: float) -> None:
        self._answered_ms = now_ms
        self._joining_ms = None
        self._silence_ms = 0.0
        self.failure = ""

    def _explain(self, explanation: Explanation) -> None:
        self.log_lines.append(explanation)
        self.text = explanation.evidence

    def _since_poll(self, polled_ms: float, now_ms: float) -> Measurements:
        return self._measured(polled_ms, now_ms, since_ms=polled_ms)

    def _since_heartbeat(self, now_ms: float) -> Measurements:
        return self._measured(now_ms, now_ms, since_ms=self._answered_ms)

    def _measured(self, polled_ms: float, now_ms: float, *, since_ms: float) -> Measurements:
        return Measurements(
            settings=self._settings,
            since_poll_ms=now_ms - polled_ms,
            batch_records=self.polls.batch_records,
            record_ms=self.polls.record_ms(now_ms),
            since_heartbeat_ms=(now_ms if self._joining_ms is None else self._joining_ms) - self._answered_ms,
            since_response_ms=max(self._silence_ms, now_ms - self._responded_ms),
            rejoin_due_ms=None if self._rejoin_due_ms is None else now_ms - self._rejoin_due_ms,
            failure=self.failure,
            stalls=self.stalls.since(since_ms),
        )
