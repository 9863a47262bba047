"""Leaves a group for a query that is no more. Spark ends the process of a query's planner with SIGKILL, also when the query is stopped.

Without that, the group would wait for the member until its session expires, and its partitions would not be read so long. A small process
of its own reads the member's id from a pipe. When the pipe ends, the planner has ended, and the process sends LeaveGroup.
"""

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

TIMEOUT_MS: Final = 5_000
REASON: Final = "the streaming query has ended"
_PROPERTIES: Final = "properties"
_MEMBER_ID: Final = "member_id"
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from ottla.spark.group.departure import main; main(sys.stdin)"

log = logging.getLogger(__name__)


class Departure:
    """The process, as the planner uses it. `properties`: the consumer's; they reach the process by the pipe alone."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        command = [sys.executable, "-c", _PROGRAM.format(path=sys.path)]
        # A session of its own: what ends the driver from the terminal does not end it.
        self._process = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, start_new_session=True)
        self._send({_PROPERTIES: dict(properties)})

    def joined(self, member_id: str) -> None:
        """The query is this member now."""
        self._send({_MEMBER_ID: member_id})

    def close(self) -> None:
        """The query has left the group by itself."""
        self.joined("")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _send(self, value: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value).encode() + b"\n")
        except BrokenPipeError:
            log.warning(
                "the process that leaves the group for a query that is killed has ended: this one would stay until its session expires"
            )


def main(lines: Iterable[str]) -> None:
    """Read until the planner ends, then leave its group, unless it has done so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    properties: dict[str, str] = {}
    member_id = ""
    for line in lines:
        if line.endswith("\n"):  # otherwise it was cut off
            value = json.loads(line)
            properties = value.get(_PROPERTIES, properties)
            member_id = value.get(_MEMBER_ID, member_id)
    if member_id:
        leave(properties, member_id)


def leave(properties: Mapping[str, str], member_id: str) -> None:
    """Send LeaveGroup; what fails is logged, and then the session expires."""
    from ottla.client.admin.client import AdminClient
    from ottla.client.consumer.properties import OWN
    from ottla.client.errors import ClientError
    from ottla.client.settings import parse_client_settings
    from ottla.core.errors import PeerError

    group = properties["group.id"]
    settings = parse_client_settings({name: text for name, text in properties.items() if name not in OWN})
    try:
        with AdminClient(settings, timeout_ms=TIMEOUT_MS) as admin:
            failure = admin.remove_member(group, member_id, REASON)
    except (ClientError, PeerError, OSError) as error:
        log.warning("member %s of the group %s did not leave: %s", member_id, group, error)
        return
    if failure is not None:
        log.warning("member %s of the group %s did not leave: %s", member_id, group, failure.message or failure.code.name)
