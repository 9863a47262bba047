"""A few looks at groups by the admin API, where a cluster's topics may not be read: only what changes in these seconds is seen."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from ottla.cli.watch.polling import Poller
from ottla.client.admin.client import AdminClient
from ottla.client.settings import ClientSettings
from ottla.core.diagnosis.evidence.admin_snapshots import AdminSnapshots, GroupSnapshot
from ottla.core.diagnosis.evidence.model import Evidence

LOOKS: Final = 6
PAUSE_S: Final = 2.0


def look_at_cluster(settings: ClientSettings, groups: Sequence[str], note: Callable[[str], None]) -> list[Evidence]:
    """Look at the groups for some seconds. Raises ClientError or PeerError."""
    with AdminClient(settings) as admin:
        poller = Poller(admin, groups=groups or None, now_ms=lambda: time.time_ns() // 1_000_000, note=note)
        found = compare_looks(poller.look, pause=lambda: time.sleep(PAUSE_S))
    note(
        f"the admin API was asked {LOOKS} times in {LOOKS * PAUSE_S:.0f} s: only what changed meanwhile is seen, without reasons and, "
        "for classic groups, generations; `ottla watch` goes on looking"
    )
    return found


def compare_looks(look: Callable[[], list[GroupSnapshot]], *, pause: Callable[[], None], looks: int = LOOKS) -> list[Evidence]:
    """The evidence of several looks, one after the other."""
    snapshots = AdminSnapshots()
    found: list[Evidence] = []
    for number in range(looks):
        if number:
            pause()
        for snapshot in look():
            found += snapshots.read(snapshot)
    return found
