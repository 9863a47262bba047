"""A member that uses Ottla's own consumer, which has confluent-kafka's methods and logs by Python's logging."""

from typing import Any

import ottla
from trials.incidents.members.confluent_member import ConfluentMember
from trials.incidents.members.program import MemberSettings, java_settings


class OttlaMember(ConfluentMember):
    """See `program.Client`."""

    def _new_consumer(self, settings: MemberSettings) -> Any:
        return ottla.Consumer(java_settings(settings) | {"partition.assignment.strategy": ",".join(settings.assignors)})


make_client = OttlaMember
