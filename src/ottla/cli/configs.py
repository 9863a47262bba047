"""`ottla configs`: what Kafka's kafka-configs does, in its words.

It has settings of topics, brokers and groups, quotas of users, clients and addresses, and credentials of users (SCRAM).
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from ottla.cli.clusters import CommandFailed, client_settings, named, of_error
from ottla.cli.options import parse_properties
from ottla.client.admin.client import AdminClient
from ottla.client.admin.configs import ANY, DEFAULT, EXACT, ConfigEntry, QuotaEntry
from ottla.client.admin.values import Failure
from ottla.client.errors import ClientError
from ottla.config.value_grammar import double_text
from ottla.protocol.errors import PeerError
from ottla.security.scram import HASHES, ITERATIONS_MIN
from ottla.text import printable

USERS, CLIENTS, IPS, TOPICS, BROKERS, GROUPS = "users", "clients", "ips", "topics", "brokers", "groups"
TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, GROUPS)
"""The types of entities; the option of one is its singular."""
_RESOURCES: Final = {TOPICS: 2, BROKERS: 4, GROUPS: 32}
_DYNAMIC: Final = {TOPICS: 1, BROKERS: 2, GROUPS: 8}
_DYNAMIC_DEFAULT: Final = 3
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_QUOTA_TYPES: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_QUOTA_WORDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
QUOTAS: Final = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
_BESIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
Given = Mapping[str, Any]
"""The options of the command line, by their names with "_"."""


def run(given: Given, arguments: Sequence[str]) -> int:
    """Do what the options ask for, and return the exit status: 1 for whatever fails. `arguments` are named where the cluster refuses."""
    try:
        entity = _entity(given)
        _check(given, entity)
        settings = client_settings(given["bootstrap_server"], given["command_config"], client_id="ottla-configs")
        with AdminClient(settings) as admin:
            _act(admin, given, entity)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except (CommandFailed, ClientError, PeerError) as error:
        text = str(error) if isinstance(error, CommandFailed) else of_error(error)
        shown = re.sub(r"password=[^\]]*", "password=[hidden]", " ".join(arguments))
        print(f"Error while executing config command with args '{shown}'\n{text}", file=sys.stderr)
        return 1
    return 0


def _entity(given: Given) -> dict[str, str | None]:
    """The types and names that the options give: "" stands for the default, None for a type without a name. Raises ValueError."""
    names = list(given["entity_name"])
    types = list(given["entity_type"])
    short = {kind: given[kind[:-1]] for kind in TYPES if given[kind[:-1]] is not None}
    defaults = [kind for kind in (CLIENTS, USERS, BROKERS, IPS) if given[f"{kind[:-1]}_defaults"]]
    if (names or types) and (short or defaults):
        raise ValueError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    types += [*short, *defaults]
    names += [*short.values(), *("" for _ in defaults)]
    if len(set(types)) != len(types):
        twice = [kind for at, kind in enumerate(types) if kind in types[:at]]
        raise ValueError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if len(names) > len(types):
        raise ValueError("More entity names specified than entity types")
    return {kind: names[at] if at < len(names) else None for at, kind in enumerate(types)}


def _check(given: Given, entity: Mapping[str, str | None]) -> None:
    """Raise ValueError for options that do not go together, with Kafka's sentences."""
    if given["alter"] == given["describe"]:
        raise ValueError("Command must include exactly one action: --describe, --alter")
    for option in ("add_config", "delete_config"):
        if given["describe"] and given[option]:
            raise ValueError(f'Option "[describe]" can\'t be used with option "[{option.replace("_", "-")}]"')
    if not given["bootstrap_server"]:
        raise ValueError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in entity:
        if kind not in TYPES:
            known = ", ".join(TYPES)
            raise ValueError(f"Invalid entity type {kind}, the entity type must be one of {known} with a --bootstrap-server argument")
    if not entity:
        raise ValueError("At least one entity type must be specified")
    if len(entity) > 1 and set(entity) != {USERS, CLIENTS}:
        raise ValueError("Only 'users' and 'clients' entity types may be specified together")
    first, names = next(iter(entity)), [name for name in entity.values() if name is not None]
    if entity.get(BROKERS) and not re.fullmatch(r"[+-]?\d+", entity[BROKERS] or ""):
        raise ValueError(f"The entity name for brokers must be a valid integer broker id, but it is: {entity[BROKERS]}")
    if entity.get(IPS) and not _is_address(entity[IPS] or ""):
        raise ValueError(f"The entity name for ips must be a valid IP or resolvable host, but it is: {entity[IPS]}")
    if given["describe"]:
        if "" in names and first in (TOPICS, GROUPS):
            raise ValueError(f"--entity-default must not be specified with --describe of {first}")
        return
    if first in (TOPICS, GROUPS) and not any(names):
        raise ValueError(f"An entity name must be specified with --alter of {first}")
    if not names:
        raise ValueError("An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
    if given["add_config"] and given["add_config_file"]:
        raise ValueError("Only one of --add-config or --add-config-file must be specified")
    if not (given["add_config"] or given["add_config_file"] or given["delete_config"]):
        raise ValueError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
    if len(names) != len(entity):
        raise ValueError("An entity name must be specified for every entity type")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def parse_configs(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v2,v3]`: brackets hold commas together. Raises ValueError."""
    pairs = [re.split(rf"\s*=\s*{_BESIDE_BRACKETS}", pair) for pair in re.split(f",{_BESIDE_BRACKETS}", text)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  "key=[val1,val2]" to'
            " group values which contain commas."
        )
    return {name.strip(): re.sub(r"\[?\]?", "", value).strip() for name, value in pairs}


def _act(admin: AdminClient, given: Given, entity: dict[str, str | None]) -> None:
    kind, name = next(iter(entity.items()))
    if given["describe"]:
        _describe(admin, given, entity)
        return
    added = parse_properties(Path(given["add_config_file"]).read_text("latin-1")) if given["add_config_file"] else {}
    added |= parse_configs(given["add_config"]) if given["add_config"] else {}
    for key in added:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise ValueError(f"Invalid character found for config key: {key}")
    deleted = [key.strip() for text in given["delete_config"] for key in text.split(",")]
    if kind in _RESOURCES:
        present = {each.name for each in _of_resource(admin, kind, name or "", everything=False)}
        _refuse_absent(deleted, present)
        failure = admin.alter_configs(_RESOURCES[kind], name or "", {**dict.fromkeys(deleted), **added})
    elif list(entity) == [USERS] and any(key in HASHES for key in (*added, *deleted)):
        failure = _alter_scram(admin, name or "", added, deleted)
    else:
        failure = _alter_quotas(admin, entity, added, deleted)
    if failure is not None:
        raise CommandFailed(_as_java(failure))
    text = f"config for {kind[:-1]} {name}" if name else f"default config for {kind} in the cluster"
    print(json.dumps({"updated": [*added, *deleted]}) if given["json"] else f"Completed updating {text}.")


def _alter_quotas(admin: AdminClient, entity: Mapping[str, str | None], added: Mapping[str, str], deleted: Sequence[str]) -> Failure | None:
    kind = IPS if IPS in entity else CLIENTS if CLIENTS in entity else USERS
    allowed = ("connection_creation_rate",) if kind == IPS else QUOTAS
    for verb, keys in (("added", added), ("deleted", deleted)):
        unknown = [key for key in keys if key not in allowed]
        if unknown and kind == IPS:
            text = ",".join(key for key in (*added, *deleted) if key not in allowed)
            raise ValueError(
                f"Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: {text}"
            )
        if unknown:
            what = "quota" if kind == CLIENTS else "quota and SCRAM credential"
            collection = f"{'Set' if verb == 'added' else 'List'}({', '.join(unknown)})"
            raise ValueError(
                f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server. Unexpected config names: {collection}"
            )
    present = _quotas(admin, entity)
    _refuse_absent(deleted, present[0].values if present else {})
    changes: dict[str, float | None] = {}
    for key, text in added.items():
        try:
            changes[key] = float(text)
        except ValueError as error:
            raise ValueError(f"Cannot parse quota configuration value for {key}: {text}") from error
    changes |= dict.fromkeys(deleted)
    return admin.alter_quotas({_QUOTA_TYPES[each]: name or None for each, name in entity.items()}, changes)


def _alter_scram(admin: AdminClient, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> Failure | None:
    for verb, keys in (("added", list(added)), ("deleted", list(deleted))):
        unknown = [key for key in keys if key not in HASHES and key not in QUOTAS]
        if unknown:
            what = f"Only quota and SCRAM credential configs can be {verb} for 'users' using --bootstrap-server."
            raise ValueError(f"{what} Unexpected config names: {'Set' if verb == 'added' else 'List'}({', '.join(unknown)})")
    if not user:
        raise ValueError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server."
        )
    if any(key in QUOTAS for key in (*added, *deleted)):
        raise ValueError("Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.")
    passwords: dict[str, tuple[int, str]] = {}
    for mechanism, text in added.items():
        found = re.fullmatch(r"(?:iterations=(-?[0-9]*),)?password=(.*)", text)
        if found is None:
            raise ValueError(f"Invalid credential property {mechanism.replace('-', '_')}: iterations=N,password=...")
        iterations = int(found[1]) if found[1] not in (None, "", "-1") else ITERATIONS_MIN
        if iterations < ITERATIONS_MIN:
            raise ValueError(f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}")
        passwords[mechanism] = iterations, found[2]
    return admin.alter_scram(user, passwords, deleted)


def _describe_scram(admin: AdminClient, user: str | None) -> list[tuple[str, Mapping[str, int]]]:
    """Users with credentials; one that has none is no error, as for Kafka's tool, whose line about that is left out."""
    found = admin.describe_scram(user)
    if isinstance(found, Failure):
        raise CommandFailed(_as_java(found))
    return [(name, infos) for name, infos in sorted(found.items()) if not isinstance(infos, Failure)]


def _refuse_absent(deleted: Iterable[str], present: Iterable[str]) -> None:
    absent = [key for key in deleted if key not in set(present)]
    if absent:
        raise ValueError(f"Invalid config(s): {','.join(absent)}")


def _describe(admin: AdminClient, given: Given, entity: Mapping[str, str | None]) -> None:
    kind, name = next(iter(entity.items()))
    documents: list[dict[str, Any]] = []
    if kind not in _RESOURCES:
        for quota in _quotas(admin, entity):
            documents.append({"entity": quota.entity, "quotas": quota.values})
            if not given["json"]:
                print(_quota_line(quota))
        for user, infos in _describe_scram(admin, name) if list(entity) == [USERS] and name != "" else ():
            documents.append({"entity": {"user": user}, "scram": dict(infos)})
            if not given["json"]:
                values = ", ".join(f"{mechanism}=iterations={iterations}" for mechanism, iterations in infos.items())
                print(f"SCRAM credential configs for user-principal '{printable(user)}' are {values}")
    else:
        for each in _names(admin, kind) if name is None else [name]:
            entries = _of_resource(admin, kind, each, everything=given["all"])
            documents.append({"entity": {kind[:-1]: each or None}, "configs": {entry.name: entry.value for entry in entries}})
            if not given["json"]:
                print(_title(kind, each, everything=given["all"]))
                print("".join(f"{_config_line(entry)}\n" for entry in entries), end="")
    if given["json"]:
        print(json.dumps(documents, indent=2))


def _names(admin: AdminClient, kind: str) -> list[str]:
    """Every entity of a type, the default of all brokers last."""
    if kind == TOPICS:
        return sorted(admin.list_topics())
    if kind == GROUPS:
        return [group.group_id for group in admin.list_groups()]
    return [*map(str, sorted(admin.describe_cluster(()).brokers)), ""]


def _title(kind: str, name: str, *, everything: bool) -> str:
    if not name:
        return f"Default configs for {kind} in the cluster are:"
    return f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {printable(name)} are:"


def _config_line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{_SOURCES.get(source, 'UNKNOWN')}:{name}={_shown(value)}" for source, name, value in entry.synonyms)
    return f"  {entry.name}={_shown(entry.value)} sensitive={str(entry.is_sensitive).lower()} synonyms={{{synonyms}}}"


def _shown(value: str | None) -> str:
    return "null" if value is None else printable(value)


def _of_resource(admin: AdminClient, kind: str, name: str, *, everything: bool) -> list[ConfigEntry]:
    found = admin.describe_configs(_RESOURCES[kind], name)
    if isinstance(found, Failure):
        raise CommandFailed(_as_java(found))
    source = _DYNAMIC_DEFAULT if kind == BROKERS and not name else _DYNAMIC[kind]
    return [entry for entry in found if everything or entry.source == source]


def _quotas(admin: AdminClient, entity: Mapping[str, str | None]) -> list[QuotaEntry]:
    wanted = [(_QUOTA_TYPES[kind], ANY if name is None else EXACT if name else DEFAULT, name or None) for kind, name in entity.items()]
    found = admin.describe_quotas(wanted)
    if isinstance(found, Failure):
        raise CommandFailed(_as_java(found))
    return sorted(found, key=lambda quota: str(quota.entity))


def _quota_line(quota: QuotaEntry) -> str:
    parts = []
    for kind, word in _QUOTA_WORDS.items():
        if kind in quota.entity:
            name = quota.entity[kind]
            parts.append(f"the default {word}" if name is None else f"{word} '{printable(name)}'")
    values = ", ".join(f"{key}={double_text(value)}" for key, value in sorted(quota.values.items()))
    return f"Quota configs for {', '.join(parts)} are {values}"


def _as_java(failure: Failure) -> str:
    return f"java.util.concurrent.ExecutionException: {named(failure)}"
