"""The language of scenario files: parses one line to one command of the group coordinator.

A line is a verb, then words, then `key=value` options; durations may be written `10s`.

    join g - new=m1 protocols=range:flights       a client without a member id; m1 is the id that it gets
    join g m1 protocols=range:flights             the same client, with its id
    join g - new=s1 instance=i1                   a static member
    join g m1 protocols=range:flights owned=flights/0+1      with what it owns (`owned=`: nothing), as a cooperative member
    sync g m1 gen=1 assignment=m1:flights/0+1     the leader, with the assignment (`;` between members, `,` between topics)
    heartbeat g m1 gen=1
    leave g m1 m2 reason="the consumer is being closed"      or, for an administrator: leave g instance=i1
    leave g m1 @i2 m3@i3                          a batch: a member, an instance id alone, a member with its instance id
    commit g m1 gen=1 flights/0=42(note)          without member and gen: a consumer that is not a member
    fetch g flights/0    fetch g                  named partitions, or all
    delete-offsets g flights/0    describe g    list states=Stable    delete g    forget flights
    evict g m1 reason=...         expire-member g m1
    consumer g m1 topics=flights            a member of the consumer protocol joins; also regex=, assignor=, instance=, v0=yes
    consumer g m1 epoch=2 owned=flights/0+1  its heartbeat, with what it owns (`owned=` nothing); without `owned` it does not say
    consumer g m1 epoch=-1                  it leaves; a static member with epoch=-2 for now
    consumer-describe g
"""

import shlex
from collections.abc import Callable, Mapping, Sequence

from ottla.groups.classic.leave import ADMIN_REASON
from ottla.groups.commands import (
    Command,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    DescribeGroup,
    EvictMember,
    ExpireMember,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    SyncGroup,
)
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription

Options = Mapping[str, str]
NO_MEMBER_ID = "-"
DEFAULT_PROTOCOLS = "range:flights"


class ScenarioError(Exception):
    """A line of a scenario file that cannot be parsed."""


def parse_command(line: str, reply_to: int) -> Command:
    """Parse one line to its command; its reply has the number `reply_to`. Raises ScenarioError."""
    verb, words, options = split_line(line)
    build = _VERBS.get(verb)
    if build is None:
        raise ScenarioError(f"no such verb: {verb} (there are {', '.join(_VERBS)})")
    try:
        return build(reply_to, words, options)
    except (IndexError, KeyError, ValueError) as error:
        raise ScenarioError(f"{line!r}: {error!r}") from error


def split_line(line: str) -> tuple[str, list[str], dict[str, str]]:
    """Split a line to verb, words and options. An option's key has no `/`: `flights/0=42` is a word."""
    verb, *rest = shlex.split(line)
    words, options = [], {}
    for part in rest:
        key, equals, value = part.partition("=")
        if equals and "/" not in key:
            options[key] = value
        else:
            words.append(part)
    return verb, words, options


def duration_ms(text: str) -> int:
    """`1500` or `1500ms` are milliseconds, `10s` seconds, `5m` minutes, `2h` hours, `7d` days."""
    for unit, factor in (("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)


def _join(reply_to: int, words: Sequence[str], options: Options) -> Command:
    group_id, member_id = words[0], words[1]
    protocol_type = options.get("type", "consumer")
    is_consumer = protocol_type == "consumer" and options.get("raw") != "yes"
    return JoinGroup(
        reply_to=reply_to,
        group_id=group_id,
        member_id="" if member_id == NO_MEMBER_ID else member_id,
        instance_id=options.get("instance"),
        client_id=options.get("client", "client"),
        client_host=options.get("host", "/127.0.0.1"),
        session_timeout_ms=duration_ms(options.get("session", "10s")),
        rebalance_timeout_ms=duration_ms(options.get("rebalance", "60s")),
        protocol_type=protocol_type,
        protocols=_protocols(
            options.get("protocols", DEFAULT_PROTOCOLS),
            owned=_partitions(options["owned"]) if "owned" in options else None,
            is_consumer=is_consumer,
        ),
        reason=options.get("reason"),
        require_known_member_id=options.get("old") != "yes",
        supports_skip_assignment=options.get("skip", "yes") == "yes",
        new_member_id=options.get("new", ""),
        new_uuid=options.get("new", ""),
        client_port=int(options.get("port", "0")),
    )


def _protocols(text: str, *, owned: dict[str, list[int]] | None, is_consumer: bool) -> tuple[tuple[str, bytes], ...]:
    """`range:flights,weather/roundrobin:flights`; outside the consumer protocol, with `raw=yes`, and after `!` the text is the metadata."""
    protocols = []
    for part in filter(None, text.split("/")):
        name, _, topics = part.partition(":")
        is_raw = not is_consumer or topics.startswith("!")
        metadata = topics.removeprefix("!").encode() if is_raw else encode_subscription(topics.split(","), owned)
        protocols.append((name, metadata))
    return tuple(protocols)


def _sync(reply_to: int, words: Sequence[str], options: Options) -> Command:
    protocol_type = options.get("type")
    return SyncGroup(
        reply_to=reply_to,
        group_id=words[0],
        generation=int(options["gen"]),
        member_id=words[1],
        instance_id=options.get("instance"),
        protocol_type=protocol_type,
        protocol_name=options.get("name"),
        assignments=_assignments(options.get("assignment", ""), raw=protocol_type == "connect"),
    )


def _assignments(text: str, *, raw: bool) -> tuple[tuple[str, bytes], ...]:
    """`m1:flights/0+1,weather/0;m2:` — the assignment of each member."""
    assignments = []
    for part in filter(None, text.split(";")):
        member_id, _, assigned = part.partition(":")
        assignments.append((member_id, assigned.encode() if raw else encode_assignment(_partitions(assigned))))
    return tuple(assignments)


def _partitions(text: str) -> dict[str, list[int]]:
    """`flights/0+1,weather/0`."""
    partitions = {}
    for piece in filter(None, text.split(",")):
        topic, _, numbers = piece.partition("/")
        partitions[topic] = [int(number) for number in numbers.split("+")]
    return partitions


def _heartbeat(reply_to: int, words: Sequence[str], options: Options) -> Command:
    return Heartbeat(
        reply_to=reply_to,
        group_id=words[0],
        generation=int(options["gen"]),
        member_id=words[1],
        instance_id=options.get("instance"),
    )


def topic_id(name: str) -> bytes:
    """The id of a topic of scenarios: its name."""
    return name.encode().ljust(16, b"\0")[:16]


def _consumer(reply_to: int, words: Sequence[str], options: Options) -> Command:
    epoch = int(options.get("epoch", "0"))
    is_joining = epoch == 0
    owned: dict[bytes, set[int]] | None = {} if is_joining or "owned" in options else None
    for part in filter(None, options.get("owned", "").split(",")):
        topic, _, numbers = part.partition("/")
        assert owned is not None
        owned[topic_id(topic)] = {int(number) for number in numbers.split("+")}
    topics = options.get("topics")
    if topics is None and is_joining and "regex" not in options:
        topics = ""
    is_first_version = options.get("v0") == "yes"
    return ConsumerGroupHeartbeat(
        reply_to=reply_to,
        group_id=words[0],
        member_id="" if words[1] == NO_MEMBER_ID else words[1],
        member_epoch=epoch,
        instance_id=options.get("instance"),
        rack_id=options.get("rack"),
        rebalance_timeout_ms=duration_ms(options["rebalance"]) if "rebalance" in options else 300_000 if is_joining else -1,
        topics=None if topics is None else frozenset(filter(None, topics.split(","))),
        regex=options.get("regex"),
        assignor=options.get("assignor"),
        owned=owned,
        client_id=options.get("client", "client"),
        client_host=options.get("host", "/127.0.0.1"),
        new_member_id=options.get("new", ""),
        needs_member_id=not is_first_version,
    )


def _consumer_describe(reply_to: int, words: Sequence[str], _: Options) -> Command:
    return ConsumerGroupDescribe(reply_to=reply_to, group_id=words[0])


def _leave(reply_to: int, words: Sequence[str], options: Options) -> Command:
    instance_id, reason = options.get("instance"), options.get("reason")
    members = []
    for word in words[1:] or [""]:
        member_id, at, own_instance_id = word.partition("@")
        members.append(LeavingMember(member_id=member_id, instance_id=own_instance_id if at else instance_id, reason=reason))
    port = int(options.get("port", "0"))
    return LeaveGroup(reply_to=reply_to, group_id=words[0], members=tuple(members), client_port=port)


def _commit(reply_to: int, words: Sequence[str], options: Options) -> Command:
    offsets = [word for word in words[1:] if "=" in word]
    member_ids = [word for word in words[1:] if "=" not in word]
    return OffsetCommit(
        reply_to=reply_to,
        group_id=words[0],
        generation=int(options.get("gen", "-1")),
        member_id=member_ids[0] if member_ids else "",
        instance_id=options.get("instance"),
        retention_ms=duration_ms(options["retention"]) if "retention" in options else -1,
        knows_group_errors=options.get("old") != "yes",
        offsets=tuple(_offset_to_commit(text, options) for text in offsets),
    )


def _offset_to_commit(text: str, options: Options) -> OffsetToCommit:
    where, _, rest = text.partition("=")
    offset, opens, metadata = rest.removesuffix(")").partition("(")
    topic, partition = _topic_partition(where)
    return OffsetToCommit(
        topic=topic,
        partition=partition,
        offset=int(offset),
        leader_epoch=int(options.get("epoch", "-1")),
        topic_id=topic_id(topic) if options.get("ids") == "yes" else bytes(16),
        metadata=metadata if opens else None,
    )


def _topic_partition(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("/")
    return topic, int(partition)


def _fetch(reply_to: int, words: Sequence[str], options: Options) -> Command:
    topics: dict[str, list[int]] = {}
    for word in words[1:]:
        topic, partition = _topic_partition(word)
        topics.setdefault(topic, []).append(partition)
    return OffsetFetch(
        reply_to=reply_to,
        group_id=words[0],
        topics=tuple((topic, tuple(numbers)) for topic, numbers in topics.items()) or None,
        require_stable=options.get("stable") == "yes",
        member_id=options.get("member"),
        member_epoch=int(options.get("epoch", "-1")),
    )


def _delete_offsets(reply_to: int, words: Sequence[str], _: Options) -> Command:
    partitions = tuple(_topic_partition(word) for word in words[1:])
    return OffsetDelete(reply_to=reply_to, group_id=words[0], partitions=partitions)


def _describe(reply_to: int, words: Sequence[str], options: Options) -> Command:
    return DescribeGroup(reply_to=reply_to, group_id=words[0], unknown_is_error=options.get("old") != "yes")


def _list(reply_to: int, _: Sequence[str], options: Options) -> Command:
    def filters(key: str) -> tuple[str, ...]:
        return tuple(filter(None, options.get(key, "").split(",")))

    return ListGroups(reply_to=reply_to, states=filters("states"), types=filters("types"))


def _delete(reply_to: int, words: Sequence[str], _: Options) -> Command:
    return DeleteGroup(reply_to=reply_to, group_id=words[0])


def _forget(_: int, words: Sequence[str], __: Options) -> Command:
    return ForgetTopics(topics=tuple(words))


def _evict(_: int, words: Sequence[str], options: Options) -> Command:
    return EvictMember(group_id=words[0], member_id=words[1], reason=options.get("reason", ADMIN_REASON))


def _expire_member(_: int, words: Sequence[str], __: Options) -> Command:
    return ExpireMember(group_id=words[0], member_id=words[1])


_VERBS: Mapping[str, Callable[[int, Sequence[str], Options], Command]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "commit": _commit,
    "fetch": _fetch,
    "delete-offsets": _delete_offsets,
    "describe": _describe,
    "list": _list,
    "delete": _delete,
    "forget": _forget,
    "evict": _evict,
    "expire-member": _expire_member,
    "consumer": _consumer,
    "consumer-describe": _consumer_describe,
}
