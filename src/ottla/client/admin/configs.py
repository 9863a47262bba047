"""An administrator's requests about settings of topics, brokers and groups, client quotas, and users' credentials (SCRAM)."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName
from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResponse
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import f64, i8, i32

from ottla.client.admin.values import Failure
from ottla.client.brokers import Brokers
from ottla.client.deadlines import Deadline
from ottla.client.errors import error_code
from ottla.protocol.errors import ErrorCode
from ottla.security.scram import HASHES

SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""By their numbers in requests."""
_MECHANISM_NUMBERS: Final = {name: number for number, name in SCRAM_MECHANISMS.items()}
_SALT_BYTES: Final = 32
OF_BROKER = 4
SET, DELETE = 0, 1
EXACT, DEFAULT, ANY = range(3)
"""What a filter wants of a type: a name, the default, or whatever there is."""


class ConfigEntry(NamedTuple):
    """One setting; `source` and the first of each synonym are Kafka's numbers of sources."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool
    synonyms: tuple[tuple[int, str, str | None], ...]


class QuotaEntry(NamedTuple):
    """An entity, by type (a name of None stands for the default), and its quotas."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


def describe_configs(brokers: Brokers, kind: int, name: str) -> list[ConfigEntry] | Failure:
    """All settings of one resource, sorted. Those of a broker are asked of that broker."""

    def attempt(deadline: Deadline) -> list[ConfigEntry] | Failure:
        resource = DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
        (result,) = _call(brokers, kind, name, request, DescribeConfigsResponse, deadline).results
        code = error_code(result.error_code)
        if code is not ErrorCode.NONE:
            return Failure(code, result.error_message)
        return sorted(
            ConfigEntry(
                each.name, each.value, each.config_source, each.is_sensitive,
                tuple((synonym.source, synonym.name, synonym.value) for synonym in each.synonyms),
            )
            for each in result.configs
        )  # fmt: skip

    return brokers.retry("describeConfigs", attempt)


def alter_configs(brokers: Brokers, kind: int, name: str, changes: Mapping[str, str | None]) -> Failure | None:
    """Set settings of one resource, or delete them (None); None when they are."""

    def attempt(deadline: Deadline) -> Failure | None:
        configs = tuple(
            AlterableConfig(name=key, config_operation=i8(DELETE if value is None else SET), value=value or "")
            for key, value in changes.items()
        )
        resource = AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (result,) = _call(brokers, kind, name, request, IncrementalAlterConfigsResponse, deadline).responses
        code = error_code(result.error_code)
        return None if code is ErrorCode.NONE else Failure(code, result.error_message)

    return brokers.retry("incrementalAlterConfigs", attempt)


def _call(brokers: Brokers, kind: int, name: str, request: Any, response_class: type[Any], deadline: Deadline) -> Any:
    if kind != OF_BROKER or not name:
        return brokers.call_any(request, response_class, deadline)
    brokers.endpoints(deadline)
    return brokers.call(brokers.connection(brokers.endpoint(int(name)), deadline), request, response_class)


def describe_quotas(brokers: Brokers, wanted: Sequence[tuple[str, int, str | None]]) -> list[QuotaEntry] | Failure:
    """The quotas of entities that have these types alone; each is wanted by type, EXACT, DEFAULT or ANY, and name."""

    def attempt(deadline: Deadline) -> list[QuotaEntry] | Failure:
        components = tuple(ComponentData(entity_type=kind, match_type=i8(how), match=name) for kind, how, name in wanted)
        request = DescribeClientQuotasRequest(components=components, strict=True)
        answer = brokers.call_any(request, DescribeClientQuotasResponse, deadline)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            return Failure(code, answer.error_message)
        return [
            QuotaEntry(
                {part.entity_type: part.entity_name for part in each.entity}, {value.key: float(value.value) for value in each.values}
            )
            for each in answer.entries or ()
        ]

    return brokers.retry("describeClientQuotas", attempt)


def alter_quotas(brokers: Brokers, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> Failure | None:
    """Set quotas of one entity, or remove them (None); None when they are."""

    def attempt(deadline: Deadline) -> Failure | None:
        entry = EntryData(
            entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
            ops=tuple(OpData(key=key, value=f64(value or 0.0), remove=value is None) for key, value in changes.items()),
        )
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
        (result,) = brokers.call_any(request, AlterClientQuotasResponse, deadline).entries
        code = error_code(result.error_code)
        return None if code is ErrorCode.NONE else Failure(code, result.error_message)

    return brokers.retry("alterClientQuotas", attempt)


def describe_scram(brokers: Brokers, user: str | None) -> dict[str, Mapping[str, int] | Failure] | Failure:
    """Mechanisms and iterations by user: of one, or of all that have credentials."""

    def attempt(deadline: Deadline) -> dict[str, Mapping[str, int] | Failure] | Failure:
        request = DescribeUserScramCredentialsRequest(users=None if user is None else (UserName(name=user),))
        answer = brokers.call_any(request, DescribeUserScramCredentialsResponse, deadline)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            return Failure(code, answer.error_message)
        found: dict[str, Mapping[str, int] | Failure] = {}
        for each in answer.results:
            failed = error_code(each.error_code)
            infos = {SCRAM_MECHANISMS.get(info.mechanism, "UNKNOWN"): int(info.iterations) for info in each.credential_infos}
            found[each.user] = infos if failed is ErrorCode.NONE else Failure(failed, each.error_message)
        return found

    return brokers.retry("describeUserScramCredentials", attempt)


def alter_scram(brokers: Brokers, user: str, passwords: Mapping[str, tuple[int, str]], deleted: Sequence[str]) -> Failure | None:
    """Set a user's credentials, by mechanism: iterations and password, which is salted and hashed here; or delete some."""
    upsertions = []
    for mechanism, (iterations, password) in passwords.items():
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        number = i8(_MECHANISM_NUMBERS[mechanism])
        upsertions.append(
            ScramCredentialUpsertion(name=user, mechanism=number, iterations=i32(iterations), salt=salt, salted_password=salted)
        )
    deletions = tuple(ScramCredentialDeletion(name=user, mechanism=i8(_MECHANISM_NUMBERS[each])) for each in deleted)
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=tuple(upsertions))

    def attempt(deadline: Deadline) -> Failure | None:
        (result,) = brokers.call_any(request, AlterUserScramCredentialsResponse, deadline).results
        code = error_code(result.error_code)
        return None if code is ErrorCode.NONE else Failure(code, result.error_message)

    return brokers.retry("alterUserScramCredentials", attempt)
