"""The sticky assignor: as even as subscriptions allow, with as few moves as that takes (Kafka: `StickyAssignor`).

Members keep what they own; what has no owner goes to the members with the fewest partitions; then partitions move from the members with the
most to those with the fewest until no moves make the counts more even. Kafka's own may choose other partitions to move, not
fewer of them for counts as even. Racks are not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber
from ottla.groups.assignors._balancing import as_assignment, even_out, even_out_by_chains, fill_up, give_back, kept_holdings
from ottla.groups.assignors._owned import claimed_partitions, decode_sticky, encode_sticky
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import Partitions


def assign_sticky(members: Sequence[Subscriber], partitions: Mapping[str, int], owners: Mapping[TopicPartition, str | None]) -> Assignment:
    """The assignment of partitions that had these owners."""
    ordered = sorted(members, key=lambda member: member.order)
    subscribed = partitions.keys() & set().union(*{member.topics for member in ordered})
    names = [TopicPartition(topic, number) for topic in sorted(subscribed) for number in range(partitions[topic])]
    holdings = kept_holdings(ordered, names, owners)
    fill_up(holdings)
    even_out(holdings)
    even_out_by_chains(holdings)
    give_back(holdings)
    return as_assignment(holdings, ordered, names)


class StickyAssignor(Assignor):
    """Keeps partitions where they are."""

    name = "sticky"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """Keep, fill up, even out."""
        return assign_sticky(members, partitions, claimed_partitions(members))

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """The last assignment and its generation: the member has revoked it when it joins again, so its subscription does not show it."""
        return None if owned is None else encode_sticky(owned, generation)

    def with_user_data(self, member: Subscriber, user_data: bytes | None) -> Subscriber:
        """The ownership of the user data, whatever the subscription's fields show."""
        owned, generation = decode_sticky(user_data)
        return replace(member, owned=owned, generation=generation)


ASSIGNOR = StickyAssignor()
