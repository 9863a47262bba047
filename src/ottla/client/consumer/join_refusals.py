"""What a coordinator's refusal of a member means for its settings: sentences for errors that a broker gives as a code alone."""

from ottla.core.client.group.values import GroupSettings
from ottla.core.errors import ErrorCode


def refusal_of(code: ErrorCode, settings: GroupSettings) -> str | None:
    """A sentence that names the settings which do not fit; None for other errors."""
    group = f"group {settings.group_id}"
    match code:
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            return (
                f"{group}: session.timeout.ms={settings.session_timeout_ms} is refused: it must be between the broker's "
                "group.min.session.timeout.ms (default 6000) and group.max.session.timeout.ms (default 1800000)"
            )
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return (
                f"{group}: its members have no assignor in common with this one: partition.assignment.strategy must name one of theirs, too"
            )
        case ErrorCode.FENCED_INSTANCE_ID:
            return f"{group}: another consumer has joined with group.instance.id={settings.instance_id}: each needs one of its own"
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            return f"{group}: it has as many members as the broker's group.max.size allows"
        case _:
            return None
