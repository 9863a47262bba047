"""What a member id says of its member."""

import re
from typing import Final

_SUFFIX: Final = re.compile(r"-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
"""A classic coordinator makes member ids of the client id or the instance id and a UUID."""


def name_in_member_id(member_id: str | None) -> str | None:
    """The client id or instance id that a classic member id begins with; None for the ids of KIP-848 members."""
    if not member_id:
        return None
    name = _SUFFIX.sub("", member_id)
    return name if name and name != member_id else None
