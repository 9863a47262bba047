"""Weights of causes that several rules about members that went share: how causes compare where nothing else is known."""

from typing import Final

from ottla.history.sources.cause_codes import Cause

_C = Cause

ANY_LOSS: Final = {_C.LEAVE_CLOSE: 3.0, _C.RESTART_DYNAMIC: 3.0, _C.EXPIRE_HEARTBEAT: 2.0, _C.POLL_TIMEOUT: 2.0} | {
    _C.ADMIN: 0.3,
    _C.JOIN_TIMEOUT: 0.5,
    _C.SYNC_TIMEOUT: 0.3,
    _C.ASSIGNOR_CHANGE: 0.1,
}
"""A member that is not listed any more, and nothing says why."""
OPEN: Final = {_C.ASSIGNOR_CHANGE: 0.6, _C.CAPACITY: 0.1, _C.MIGRATION: 0.1}
SILENT: Final = {
    _C.EXPIRE_HEARTBEAT: 10.0,
    _C.RESTART_DYNAMIC: 1.0,
    _C.POLL_TIMEOUT: 1.0,
    _C.JOIN_TIMEOUT: 2.0,
    _C.LEAVE_CLOSE: 0.5,
    _C.SYNC_TIMEOUT: 0.5,
}
BACK: Final = {
    _C.RESTART_DYNAMIC: 6.0,
    _C.POLL_TIMEOUT: 3.0,
    _C.EXPIRE_HEARTBEAT: 6.0,
    _C.JOIN_TIMEOUT: 3.0,
    _C.SYNC_TIMEOUT: 3.0,
    _C.ADMIN: 3.0,
    _C.LEAVE_CLOSE: 0.2,
    _C.SUBSCRIPTION: 3.0,
    **OPEN,
    _C.ASSIGNOR_CHANGE: 2.0,
}
AWAY: Final = {**BACK, **OPEN, _C.LEAVE_CLOSE: 6.0, _C.SUBSCRIPTION: 0.3, _C.RESTART_DYNAMIC: 0.1, _C.POLL_TIMEOUT: 1.0, _C.ADMIN: 2.0}
