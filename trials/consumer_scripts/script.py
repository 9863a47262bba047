"""A seeded script of one consumer group: each step depends on the seed and on what the reference has answered so far.

Members have ids of the script, so that both brokers assign alike; the assignor is range, which is a function of the ids. What depends on a
clock is made certain: sessions are 45 s, but for the step that shortens one and waits for its end; targets have no interval.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

HEARTBEAT, COMMIT, FETCH_OFFSETS, DESCRIBE, DELETE_GROUPS, DELETE_OFFSETS, LEAVE_GROUP = 68, 8, 9, 15, 42, 47, 13
VERSIONS: Final = {HEARTBEAT: 1, COMMIT: 9, FETCH_OFFSETS: 9, DESCRIBE: 6, DELETE_GROUPS: 2, DELETE_OFFSETS: 0, LEAVE_GROUP: 5}
STEPS: Final = range(15, 40)
MEMBERS_MAX: Final = 5
TIMEOUT_MS: Final = 300_000
PATTERNS: Final = ("G-t.*", "G-t[01]", "G-(t0|t2)", "G-nothing", "G-.*t1")
BROKEN_PATTERNS: Final = ("[", "(?!a)", "a**")


class Step(NamedTuple):
    """One step: a request, or with `api` None an action of that kind. `owned` partitions are by topic name."""

    kind: str
    api: int | None = None
    values: Mapping[str, Any] = {}
    owned: Mapping[str, list[int]] | None = None
    member: str | None = None
    has_new_regex: bool = False

    def __str__(self) -> str:
        values = {name: value for name, value in self.values.items() if value is not None and name != "group_id"}
        return f"{self.kind} {values}{'' if self.owned is None else f' owned={dict(self.owned)}'}"


@dataclass(slots=True)
class Member:
    """A member as its client knows it."""

    member_id: str
    epoch: int = 0
    assigned: dict[str, list[int]] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    regex: str | None = None
    instance_id: str | None = None


class Script:
    """The steps of a seed; `learn` gets the reference's answers."""

    def __init__(self, seed: int, group: str) -> None:
        self.group = group
        self._rng = random.Random(seed)
        self._left = self._rng.choice(STEPS)
        self._count = 0
        self.topics = {f"{group}-t{number}": self._rng.randint(1, 4) for number in range(3)}
        self.members: dict[str, Member] = {}
        self._away: list[Member] = []
        self._kinds: Mapping[str, tuple[int, Callable[[], Step | None]]] = {
            "join": (8, self._join),
            "join-static": (3, self._join_static),
            "rejoin": (3, self._rejoin),
            "keepalive": (8, lambda: self._beat("keepalive")),
            "acknowledge": (14, lambda: self._beat("acknowledge", owned=True)),
            "full": (5, self._full),
            "owns-less": (3, self._owns_less),
            "topics": (6, self._subscribe),
            "regex": (4, self._subscribe_regex),
            "epoch": (4, self._other_epoch),
            "assignor": (2, lambda: self._beat("assignor", server_assignor=self._rng.choice(["range", "nope", ""]))),
            "rack": (1, lambda: self._beat("rack", rack_id=self._rng.choice(["r1", " "]))),
            "unknown-member": (2, self._unknown_member),
            "instance": (2, self._wrong_instance),
            "invalid": (2, self._invalid),
            "leave": (4, self._leave),
            "leave-static": (3, self._leave_static),
            "return-static": (4, self._return_static),
            "remove": (2, self._remove),
            "commit": (5, self._commit),
            "fetch": (3, self._fetch),
            "delete-offsets": (2, self._delete_offsets),
            "delete-group": (1, lambda: Step("delete-group", DELETE_GROUPS, {"groups_names": [self.group]})),
            "describe-classic": (1, lambda: Step("describe-classic", DESCRIBE, {"groups": [self.group]})),
            "expire": (1, self._expire),
            "more-partitions": (2, self._more_partitions),
            "new-topic": (1, self._new_topic),
            "delete-topic": (1, self._delete_topic),
        }

    def next(self) -> Step | None:
        """The next step; at the end all members leave and the group is deleted, then None."""
        if self._left <= 0:
            return self._end()
        self._left -= 1
        while True:
            (kind,) = self._rng.choices(list(self._kinds), [weight for weight, _ in self._kinds.values()])
            step = self._kinds[kind][1]()
            if step is not None:
                return step

    def learn(self, step: Step, answer: Any) -> None:
        """Take note of the reference's (masked) answer."""
        if step.api != HEARTBEAT or step.member is None:
            return
        member = self.members.get(step.member)
        if answer["error_code"] == 0:
            if answer["member_epoch"] < 0:
                left = self.members.pop(step.member, None)
                if left is not None and answer["member_epoch"] == -2:
                    self._away.append(left)
                return
            if member is None:
                member = self.members[step.member] = Member(step.member)
            member.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                member.assigned = dict(answer["assignment"])
            if step.values.get("subscribed_topic_names") is not None:
                member.topics = step.values["subscribed_topic_names"]
            if step.values.get("subscribed_topic_regex") is not None:
                member.regex = step.values["subscribed_topic_regex"]
            member.instance_id = step.values.get("instance_id") or member.instance_id
        elif answer["error_code"] in (25, 110, 69):  # it is gone, or must join again
            self.members.pop(step.member, None)

    def forget(self, member_id: str) -> None:
        """A member is gone."""
        self.members.pop(member_id, None)

    def _end(self) -> Step | None:
        for member in [*self.members.values(), *self._away]:
            self.members.pop(member.member_id, None)
            if member in self._away:
                self._away.remove(member)
            values = {"member_epoch": -1, "group_id": self.group, "member_id": member.member_id}
            return Step("leave", HEARTBEAT, _nothing(values))
        if self._left == 0:
            self._left = -1
            return Step("delete-group", DELETE_GROUPS, {"groups_names": [self.group]})
        return None

    def _member(self) -> Member | None:
        return self._rng.choice(list(self.members.values())) if self.members else None

    def _some_topics(self) -> list[str]:
        names = [*self.topics, f"{self.group}-missing"]
        return self._rng.sample(names, self._rng.randint(0 if self._rng.random() < 0.2 else 1, len(names)))

    def _request(
        self,
        kind: str,
        member_id: str,
        epoch: int,
        *,
        owned: Mapping[str, list[int]] | None = None,
        has_new_regex: bool = False,
        **values: Any,
    ) -> Step:
        asked = {"group_id": self.group, "member_id": member_id, "member_epoch": epoch, **values}
        return Step(kind, HEARTBEAT, _nothing(asked), owned, member_id, has_new_regex)

    def _joining(self, kind: str, member_id: str, **values: Any) -> Step:
        if "subscribed_topic_names" not in values and "subscribed_topic_regex" not in values:
            values["subscribed_topic_names"] = self._some_topics()
        return self._request(kind, member_id, 0, owned={}, rebalance_timeout=TIMEOUT_MS, **values)

    def _new_id(self) -> str:
        self._count += 1
        return f"m{self._rng.randint(0, 99):02}-{self._count}"

    def _join(self) -> Step | None:
        return None if len(self.members) >= MEMBERS_MAX else self._joining("join", self._new_id())

    def _join_static(self) -> Step | None:
        if len(self.members) >= MEMBERS_MAX:
            return None
        return self._joining("join-static", self._new_id(), instance_id=f"i{self._rng.randint(0, 2)}")

    def _rejoin(self) -> Step | None:
        member = self._member()
        if member is None:
            return None
        topics = member.topics if self._rng.random() < 0.6 else self._some_topics()
        return self._joining("rejoin", member.member_id, subscribed_topic_names=topics)

    def _beat(self, kind: str, *, owned: bool = False, **values: Any) -> Step | None:
        member = self._member()
        if member is None:
            return None
        return self._request(kind, member.member_id, member.epoch, owned=member.assigned if owned else None, **values)

    def _full(self) -> Step | None:
        member = self._member()
        if member is None:
            return None
        values: dict[str, Any] = {"subscribed_topic_names": member.topics, "rebalance_timeout": TIMEOUT_MS}
        return self._request("full", member.member_id, member.epoch, owned=member.assigned, **values)

    def _owns_less(self) -> Step | None:
        member = self._member()
        if member is None:
            return None
        owned = {topic: numbers for topic, numbers in member.assigned.items() if self._rng.random() < 0.5}
        return self._request("owns-less", member.member_id, member.epoch, owned=owned)

    def _subscribe(self) -> Step | None:
        return self._beat("topics", owned=self._rng.random() < 0.5, subscribed_topic_names=self._some_topics())

    def _subscribe_regex(self) -> Step | None:
        member = self._member()
        if member is None:
            return None
        if self._rng.random() < 0.2:
            return self._request("regex-broken", member.member_id, member.epoch, subscribed_topic_regex=self._rng.choice(BROKEN_PATTERNS))
        regex = self._rng.choice(("", *PATTERNS)).replace("G", self.group)
        return self._request("regex", member.member_id, member.epoch, has_new_regex=bool(regex), subscribed_topic_regex=regex)

    def _other_epoch(self) -> Step | None:
        member = self._member()
        if member is None:
            return None
        owned = self._rng.choice([None, {}, member.assigned])
        epoch = max(1, member.epoch + self._rng.choice((-2, -1, -1, -1, 1, 5)))
        return self._request("epoch", member.member_id, epoch, owned=owned)._replace(member=None)

    def _unknown_member(self) -> Step:
        return self._request("unknown-member", "nobody", self._rng.choice((-1, 1, 7)))

    def _wrong_instance(self) -> Step | None:
        member = self._member()
        if member is None:
            return None
        instance = f"i{self._rng.randint(0, 3)}"
        step = self._request("instance", member.member_id, member.epoch, instance_id=instance)
        return step._replace(member=None)

    def _invalid(self) -> Step:
        changes: dict[str, Any] = self._rng.choice(
            [
                {"member_id": ""},
                {"rebalance_timeout": -1},
                {"subscribed_topic_names": None},
                {"instance_id": " "},
                {"rack_id": ""},
                {"member_epoch": -2},
                {"member_epoch": -3},
                {"server_assignor": "other"},
            ]
        )
        step = self._joining("invalid", "invalid")
        return step._replace(values={**step.values, **changes}, member=None)

    def _leave(self) -> Step | None:
        member = self._member()
        return None if member is None else self._request("leave", member.member_id, -1)

    def _leave_static(self) -> Step | None:
        static = [member for member in self.members.values() if member.instance_id is not None]
        if not static:
            return None
        member = self._rng.choice(static)
        return self._request("leave-static", member.member_id, -2, instance_id=member.instance_id)

    def _return_static(self) -> Step | None:
        if not self._away:
            return None
        member = self._away.pop(self._rng.randrange(len(self._away)))
        member_id = member.member_id if self._rng.random() < 0.5 else self._new_id()
        topics = member.topics if self._rng.random() < 0.7 else self._some_topics()
        return self._joining("return-static", member_id, instance_id=member.instance_id, subscribed_topic_names=topics)

    def _remove(self) -> Step | None:
        member = self._member()
        if member is None:
            return None
        self.forget(member.member_id)
        return Step("remove", LEAVE_GROUP, {"group_id": self.group, "members": [{"member_id": member.member_id}, {"member_id": "nobody"}]})

    def _commit(self) -> Step:
        member = self._member()
        member_id, epoch = ("", -1) if member is None or self._rng.random() < 0.2 else (member.member_id, member.epoch)
        if member_id and self._rng.random() < 0.4:
            epoch += self._rng.choice((-3, -1, 1))
        topics = [
            {"name": name, "partitions": [{"partition_index": self._rng.randint(0, 4), "committed_offset": 5, "committed_metadata": "x"}]}
            for name in self._some_topics()
        ]
        values = {"group_id": self.group, "member_id": member_id, "generation_id_or_member_epoch": epoch, "topics": topics}
        return Step("commit", COMMIT, values)

    def _fetch(self) -> Step:
        member = self._member()
        asked: dict[str, Any] = {"group_id": self.group, "topics": None, "member_id": None, "member_epoch": -1}
        if member is not None and self._rng.random() < 0.7:
            asked |= {"member_id": member.member_id, "member_epoch": member.epoch + self._rng.choice((0, 0, -1, 1))}
        return Step("fetch", FETCH_OFFSETS, {"groups": [asked], "require_stable": False})

    def _delete_offsets(self) -> Step:
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in self._some_topics()]
        return Step("delete-offsets", DELETE_OFFSETS, {"group_id": self.group, "topics": topics})

    def _expire(self) -> Step | None:
        member = self._member()
        return None if member is None else Step("expire", member=member.member_id, values={"epoch": member.epoch})

    def _more_partitions(self) -> Step | None:
        topic = self._rng.choice(list(self.topics))
        self.topics[topic] += 1
        return Step("more-partitions", values={"topic": topic, "count": self.topics[topic]})

    def _new_topic(self) -> Step | None:
        missing = [name for number in range(5) if (name := f"{self.group}-t{number}") not in self.topics]
        if not missing:
            return None
        self.topics[missing[0]] = 2
        return Step("new-topic", values={"topic": missing[0], "count": 2})

    def _delete_topic(self) -> Step | None:
        if len(self.topics) < 3:
            return None
        topic = self._rng.choice(list(self.topics))
        del self.topics[topic]
        return Step("delete-topic", values={"topic": topic})


def _nothing(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A heartbeat that leaves out what is not in `values`."""
    names = ("instance_id", "rack_id", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor")
    return {**dict.fromkeys(names), "rebalance_timeout": -1, **values}
