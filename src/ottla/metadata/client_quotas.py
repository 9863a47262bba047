"""Client quotas: which are set, for whom, and which one counts for a client (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599, KIP-612).

Replayed from the metadata log. Kafka's sentences for what is refused are here too (ClientQuotaControlManager, ClientQuotasImage).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.config import INT_MAX, LONG_MAX
from ottla.metadata.records import ClientQuotaRecord, QuotaEntity
from ottla.protocol.errors import ApiError, ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
WHOLE_MAX: Final[Mapping[str, int]] = {PRODUCER_BYTE_RATE: LONG_MAX, CONSUMER_BYTE_RATE: LONG_MAX, CONNECTION_CREATION_RATE: INT_MAX}
"""The quotas that are whole numbers, and their largest values."""
_OF_CLIENTS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
_FRACTION_MIN: Final = 1e-6

Entity = tuple[tuple[str, str | None], ...]
"""Types and names, sorted by type; a name of None stands for the default."""


class Quota(NamedTuple):
    """A quota that counts for a client. Usage is counted together for all clients with the same `counted_as`: user and client id."""

    value: float
    counted_as: tuple[str, str]


class Match(NamedTuple):
    """What a filter wants of one type: a name, the default (None), or whatever there is (`is_any`)."""

    entity_type: str
    name: str | None
    is_any: bool


class ClientQuotas:
    """The quotas that are set. `version` grows with every change."""

    def __init__(self) -> None:
        self._by_entity: dict[Entity, dict[str, float]] = {}
        self._set: Counter[str] = Counter()
        self.version = 0

    def has(self, key: str) -> bool:
        """Whether anyone has a quota of this kind: else nothing needs to be counted."""
        return self._set[key] > 0

    def replay(self, record: ClientQuotaRecord) -> None:
        """Apply a record."""
        self.version += 1
        entity = _entity((each.entity_type, each.entity_name) for each in record.entity)
        values = self._by_entity.setdefault(entity, {})
        if record.key in values:
            self._set[record.key] -= 1
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
            self._set[record.key] += 1
        if not values:
            del self._by_entity[entity]

    def of_client(self, key: str, user: str, client_id: str) -> Quota | None:
        """The quota of a kind that counts for a user with a client id: the first that is set, in Kafka's order."""
        both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
        for entity, counted_as in (
            (((CLIENT_ID, client_id), (USER, user)), both),
            (((CLIENT_ID, None), (USER, user)), both),
            (((USER, user),), of_user),
            (((CLIENT_ID, client_id), (USER, None)), both),
            (((CLIENT_ID, None), (USER, None)), both),
            (((USER, None),), of_user),
            (((CLIENT_ID, client_id),), of_client),
            (((CLIENT_ID, None),), of_client),
        ):
            value = self._by_entity.get(entity, _NOTHING).get(key)
            if value is not None:
                return Quota(value, counted_as)
        return None

    def of_address(self, address: str) -> float | None:
        """Connections a second that an address may make."""
        for entity in (((IP, address),), ((IP, None),)):
            value = self._by_entity.get(entity, _NOTHING).get(CONNECTION_CREATION_RATE)
            if value is not None:
                return value
        return None

    def matching(self, wanted: Sequence[Match], *, strict: bool) -> list[tuple[Entity, Mapping[str, float]]]:
        """The entities with all that is wanted, and with `strict` nothing else, with their quotas."""

        def matches(entity: Entity) -> bool:
            names = dict(entity)
            return (not strict or len(entity) == len(wanted)) and all(
                each.entity_type in names and (each.is_any or names[each.entity_type] == each.name) for each in wanted
            )

        return [(entity, values) for entity, values in self._by_entity.items() if matches(entity)]

    def alter(
        self, entity: Sequence[tuple[str, str | None]], changes: Mapping[str, float | None], is_address: Callable[[str], bool]
    ) -> list[ClientQuotaRecord] | ApiError:
        """The records that set quotas of an entity, or remove them (None), or why that cannot be. What changes nothing has no record."""
        problem = _entity_problem(entity, is_address)
        keys = (CONNECTION_CREATION_RATE,) if any(kind == IP for kind, _ in entity) else _OF_CLIENTS
        problems = [problem] if problem else [text for text in (_value_problem(keys, *change) for change in changes.items()) if text]
        if problems:
            return ApiError(ErrorCode.INVALID_REQUEST, problems[0])
        current = self._by_entity.get(_entity(entity), _NOTHING)
        return [
            ClientQuotaRecord(
                entity=tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity),
                key=key,
                value=0.0 if value is None else value,
                remove=value is None,
            )
            for key, value in changes.items()
            if current.get(key) != value
        ]


_NOTHING: Final[Mapping[str, float]] = {}


def _entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    return tuple(sorted(parts, key=lambda part: part[0]))


def _entity_problem(entity: Sequence[tuple[str, str | None]], is_address: Callable[[str], bool]) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    seen: set[str] = set()
    for kind, name in entity:
        if kind in seen:
            return f"Invalid client quota entity, duplicate entity entry {kind}"
        seen.add(kind)
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in seen and len(seen) > 1:
        return "Invalid empty client quota entity"
    address = dict(entity).get(IP)
    return f"{address} is not a valid IP or resolvable host." if address is not None and not is_address(address) else None


def _value_problem(keys: Sequence[str], key: str, value: float | None) -> str | None:
    if key not in keys:
        return None if value is None else f"Invalid configuration key {key}"
    if value is None:
        return None
    if not value > 0:
        return f"Quota {key} must be greater than 0"
    if key in WHOLE_MAX and value > WHOLE_MAX[key]:
        return f"Proposed value for {key} is too large for {'an INT' if WHOLE_MAX[key] == INT_MAX else 'a LONG'}."
    if key in WHOLE_MAX and value % 1 > _FRACTION_MIN:
        return f"{key} cannot be a fractional value."
    return None
