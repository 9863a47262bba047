"""`ottla acls`: what Kafka's kafka-acls does, in its words; which rule decides about something; and the ACLs for what a client did."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from ottla.cli.clusters import CommandFailed, UsageProblem, client_settings, named, of_error
from ottla.cli.text_tables import wrapped
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.client.errors import ClientError
from ottla.protocol.errors import PeerError
from ottla.security.access import CLUSTER_NAME, OPERATIONS, Operation, ResourceType
from ottla.security.acl_suggestions import suggest
from ottla.security.acls import WILDCARD, Acl, AclFilter, AclIndex, Decision, PatternType, PermissionType, StandardAuthorizer
from ottla.text import printable

RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
"""The options that name resources."""
_OPTIONS_OF: Final = {kind: option.replace("_", "-") for option, kind in RESOURCES.items()}
_OPERATIONS: Final = {operation.name.replace("_", "").lower(): operation for operation in Operation if operation is not Operation.ANY}
_OF_TYPE: Final = {
    **OPERATIONS,
    ResourceType.TRANSACTIONAL_ID: 1 << Operation.WRITE | 1 << Operation.DESCRIBE | 1 << Operation.TWO_PHASE_COMMIT,
    ResourceType.DELEGATION_TOKEN: 1 << Operation.DESCRIBE,
    ResourceType.USER: 1 << Operation.CREATE_TOKENS | 1 << Operation.DESCRIBE_TOKENS,
}
"""The operations that exist for each type, as a bit field (AclEntry)."""
PRODUCER: Final = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (Operation.IDEMPOTENT_WRITE,),
}
CONSUMER: Final = {ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE), ResourceType.GROUP: (Operation.READ,)}
Given = Mapping[str, Any]
"""The options of the command line, by their names with "_"."""


def run(given: Given, ask: Callable[[str], str] = input) -> int:
    """Do what the options ask for, and return the exit status: 1 for what failed, and for a command line that makes no sense."""
    try:
        if given["suggest"]:
            _suggest(given)
            return 0
        _check(given)
        settings = client_settings(given["bootstrap_server"], given["command_config"], client_id="ottla-acls")
        with AdminClient(settings) as admin:
            _act(admin, given, ask)
    except UsageProblem as problem:
        print(f"{problem}\nTry 'ottla acls --help' for help.", file=sys.stderr)
        return 1
    except (CommandFailed, ValueError, OSError) as error:
        print(f"Error while executing ACL command: {error}")
        return 1
    except (ClientError, PeerError) as error:
        print(f"Error while executing ACL command: {of_error(error)}")
        return 1
    return 0


def _act(admin: AdminClient, given: Given, ask: Callable[[str], str]) -> None:
    if given["add"]:
        _add(admin, given)
    elif given["remove"]:
        _remove(admin, given, ask)
    elif given["list"]:
        _list(admin, given)
    else:
        _explain(admin, given)


def _check(given: Given) -> None:
    """Raise UsageProblem for options that do not go together, with Kafka's sentences."""
    if not given["bootstrap_server"]:
        raise UsageProblem("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(bool(given[action]) for action in ("add", "remove", "list", "explain")) != 1:
        raise UsageProblem("Command must include exactly one action: --list, --add, --remove, --explain, --suggest.")
    denying = ("deny_principal", "deny_host")
    of_lists = ("producer", "consumer", "allow_host", "allow_principal", *denying)
    for option, others in (("list", of_lists), ("producer", ("operation", *denying)), ("consumer", ("operation", *denying))):
        for other in others if given[option] else ():
            if given[other]:
                raise UsageProblem(f'Option "[{option}]" can\'t be used with option "[{other.replace("_", "-")}]"')
    if given["principal"] and not given["list"]:
        raise UsageProblem("The --principal option is only available if --list is set")
    if given["producer"] and not given["topic"]:
        raise UsageProblem("With --producer you must specify a --topic")
    if given["idempotent"] and not given["producer"]:
        raise UsageProblem("The --idempotent option is only available if --producer is set")
    has_more = not given["producer"] and (given["cluster"] or given["transactional_id"])
    if given["consumer"] and (not given["topic"] or not given["group"] or has_more):
        raise UsageProblem(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be specified."
        )


def _pattern_type(given: Given) -> PatternType:
    return PatternType[given["resource_pattern_type"].upper()]


def _resources(given: Given, *, needed: bool) -> list[tuple[ResourceType, str, PatternType]]:
    pattern = _pattern_type(given)
    found = [(kind, name.strip(), pattern) for option, kind in RESOURCES.items() for name in given[option]]
    if pattern is PatternType.LITERAL and (given["cluster"] or given["idempotent"]):
        found.append((ResourceType.CLUSTER, CLUSTER_NAME, pattern))
    if needed and not found:
        raise UsageProblem(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group>"
            " or --delegation-token <Delegation Token ID>"
        )
    return list(dict.fromkeys(found))


def _operations(given: Given, kind: ResourceType) -> tuple[Operation, ...]:
    """What is allowed or denied on resources of a type."""
    if not (given["producer"] or given["consumer"]):
        return tuple(dict.fromkeys(_operation(name) for name in given["operation"] or ("All",)))
    of_producer = PRODUCER.get(kind, ()) if given["producer"] and (kind is not ResourceType.CLUSTER or given["idempotent"]) else ()
    return tuple(dict.fromkeys((*of_producer, *(CONSUMER.get(kind, ()) if given["consumer"] else ()))))


def _operation(name: str) -> Operation:
    found = _OPERATIONS.get(name.strip().replace("_", "").lower())
    if found is None:
        raise UsageProblem(f"{name} is no operation; there are {', '.join(map(_camel_case, _OPERATIONS.values()))}")
    return found


def _camel_case(operation: Operation) -> str:
    return "".join(word.title() for word in operation.name.split("_"))


def _principals(texts: Iterable[str]) -> list[str]:
    for text in texts:
        if not all(text.strip().partition(":")[::2]):
            raise UsageProblem(f"expected a string in format principalType:principalName but got {text}")
    return [text.strip() for text in texts]


def _entries(given: Given) -> dict[tuple[ResourceType, str, PatternType], list[Acl]]:
    """The ACLs that the options describe, by resource."""
    entries: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
    for resource in _resources(given, needed=True):
        kind = resource[0]
        operations = _operations(given, kind)
        if (given["producer"] or given["consumer"]) and not operations:
            continue
        acls = [
            Acl(*resource, principal, host, operation, permission)
            for option, permission in (("allow", PermissionType.ALLOW), ("deny", PermissionType.DENY))
            for principal in _principals(given[f"{option}_principal"])
            for operation in operations
            for host in given[f"{option}_host"] or (WILDCARD,)
        ]
        if any(acl.operation is not Operation.ALL and not _OF_TYPE[kind] & 1 << acl.operation for acl in acls):
            names = ", ".join(each.name for each in Operation if each is Operation.ALL or _OF_TYPE[kind] & 1 << each)
            raise UsageProblem(f"ResourceType {kind.name} only supports operations [{names}]")
        entries[resource] = acls
    return entries


def _add(admin: AdminClient, given: Given) -> None:
    if _pattern_type(given) not in (PatternType.LITERAL, PatternType.PREFIXED):
        name = _pattern_type(given).name
        raise UsageProblem(f"A '--resource-pattern-type' value of '{name}' is not valid when adding acls.")
    entries = _entries(given)
    if not all(entries.values()):
        raise UsageProblem("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    added: list[Acl] = []
    for resource, acls in entries.items():
        present = _described(admin, AclFilter(*resource))
        for acl in acls:
            if acl in present:
                _say(given, f"Acl (pattern={_pattern(acl)}, entry={_entry(acl)}) already exists.")
        new = [acl for acl in acls if acl not in present]
        if new:
            lines = "\n".join(f"\t{_entry(acl)}" for acl in new)
            _say(given, f"Adding ACLs for resource `{_pattern(new[0])}`: \n {lines}\n")
            _raise_first(admin.create_acls(new))
            added += new
    _say_json(given, added=added)


def _remove(admin: AdminClient, given: Given, ask: Callable[[str], str]) -> None:
    for resource, acls in _entries(given).items():
        wanted = AclFilter(*resource)
        if acls:
            lines = "\n".join(f"\t{_entry(acl)}" for acl in acls)
            question = f"Are you sure you want to remove ACLs: \n {lines}\n from resource filter `{_filter(wanted)}`? (y/n)"
        else:
            question = f"Are you sure you want to delete all ACLs for resource filter `{_filter(wanted)}`? (y/n)"
        if given["force"] or ask(f"{question}\n").lower() == "y":
            _raise_first(admin.delete_acls([AclFilter(*acl) for acl in acls] or [wanted]))
    _say_json(given)


def _list(admin: AdminClient, given: Given) -> None:
    filters = [AclFilter(*resource) for resource in _resources(given, needed=False)] or [AclFilter()]
    found = list(dict.fromkeys(acl for each in filters for acl in _described(admin, each)))
    principals = _principals(given["principal"])
    if given["json"]:
        _say_json(given, acls=[acl for acl in found if not principals or acl.principal in principals])
        return
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print_acls(acl for acl in found if acl.principal == principal)
    if not principals:
        _print_acls(found)


def _print_acls(acls: Iterable[Acl]) -> None:
    for _, group in groupby(acls, key=lambda acl: acl[:3]):
        of_one = list(group)
        print(f"Current ACLs for resource `{_pattern(of_one[0])}`:")
        print("".join(f"\t{_entry(acl)}\n" for acl in of_one))


def _described(admin: AdminClient, wanted: AclFilter) -> list[Acl]:
    found = admin.describe_acls(wanted)
    if isinstance(found, Failure):
        raise CommandFailed(named(found))
    return found


def _raise_first(failures: Iterable[Failure | None]) -> None:
    for failure in failures:
        if failure is not None:
            raise CommandFailed(named(failure))


def _pattern(acl: Acl) -> str:
    return f"ResourcePattern(resourceType={acl.resource_type.name}, name={printable(acl.name)}, patternType={acl.pattern_type.name})"


def _filter(wanted: AclFilter) -> str:
    name = "<any>" if wanted.name is None else printable(wanted.name)
    return f"ResourcePattern(resourceType={wanted.resource_type.name}, name={name}, patternType={wanted.pattern_type.name})"


def _entry(acl: Acl) -> str:
    who = f"principal={printable(acl.principal)}, host={printable(acl.host)}"
    return f"({who}, operation={acl.operation.name}, permissionType={acl.permission.name})"


def _say(given: Given, text: str) -> None:
    if not given["json"]:
        print(text)


def _say_json(given: Given, **documents: Iterable[Acl]) -> None:
    if given["json"]:
        print(json.dumps({name: [_document(acl) for acl in acls] for name, acls in documents.items()}, indent=2))


def _document(acl: Acl) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value.name for name, value in acl._asdict().items()}


# What Kafka's tool has not.


def _explain(admin: AdminClient, given: Given) -> None:
    principal, operation, kind, name = parse_question(given["explain"])
    host = (given["allow_host"] or (WILDCARD,))[0]
    acls = _described(admin, AclFilter(kind, name, PatternType.MATCH))
    decision = StandardAuthorizer(AclIndex(acls)).decide(principal, host, operation, kind, name)
    rule = decision.rule if isinstance(decision.rule, Acl) else None
    if given["json"]:
        described = {"is_allowed": decision.is_allowed, "rule": str(decision), "why": " ".join(explanation(decision, acls, principal))}
        print(json.dumps(described | {"acl": None if rule is None else _document(rule)}, indent=2))
        return
    print(
        f"{'Allowed' if decision.is_allowed else 'Denied'}: {printable(principal)} {operation.name} {kind.name.lower()} {printable(name)}"
    )
    if rule is not None:
        print(f"  {_pattern(rule)}\n  {_entry(rule)}")
    for sentence in explanation(decision, acls, principal):
        print("\n".join(wrapped(sentence)))


def parse_question(words: Sequence[str]) -> tuple[str, Operation, ResourceType, str]:
    """`User:x READ topic:y`: who, what and on which resource; `cluster` needs no name. Raises UsageProblem."""
    principal, operation, resource = words
    kind_name, _, name = resource.partition(":")
    kind = ResourceType.__members__.get(kind_name.upper().replace("-", "_"))
    if kind is None or kind is ResourceType.ANY or not (name or kind is ResourceType.CLUSTER):
        raise UsageProblem(f"{resource} is no resource: write topic:NAME, group:NAME, transactional-id:NAME, or cluster")
    return _principals([principal])[0], _operation(operation), kind, name or CLUSTER_NAME


def explanation(decision: Decision, acls: Sequence[Acl], principal: str) -> Iterator[str]:
    """Why a decision is so, in sentences."""
    own = [acl for acl in acls if acl.principal in (principal, "User:*")]
    rule = decision.rule
    if isinstance(rule, str) and not acls:
        yield "No ACL is about this resource: it is denied, unless allow.everyone.if.no.acl.found is true on the brokers."
    elif isinstance(rule, str) and not own:
        yield f"{len(acls)} ACLs are about this resource, and none of them is for this principal: so it is denied."
    elif isinstance(rule, str):
        yield f"{len(own)} ACLs are for this principal on this resource, and none of them allows this operation from this host."
    elif rule.permission is PermissionType.DENY:
        allowing = sum(acl.permission is PermissionType.ALLOW for acl in own)
        yield f"A DENY decides, however specific ALLOWs are; {allowing} ALLOWs for this principal are about this resource."
    else:
        yield "This ALLOW applies, and no DENY does."
    hosts = sorted({acl.host for acl in own if acl.host != WILDCARD})
    if hosts:
        yield f"Some of its ACLs are for single hosts ({', '.join(hosts)}): ask about one with --allow-host."
    yield "A principal in super.users may do everything, whatever the ACLs say."


def _suggest(given: Given) -> None:
    principals = given["principal"] or (None,)
    texts = [sys.stdin.read() if path == "-" else Path(path).read_text("utf-8", errors="replace") for path in given["suggest"]]
    lines = [line for text in texts for line in text.splitlines()]
    acls = [acl for principal in principals for acl in suggest(lines, principal)]
    if given["json"]:
        _say_json(given, acls=acls)
        return
    if not acls:
        raise CommandFailed(f"no audit line in {', '.join(given['suggest'])}: the logger is kafka.authorizer.logger (`ottla docs acls`)")
    for (kind, name, principal), group in groupby(sorted(acls, key=_by_resource), key=_by_resource):
        option = "--cluster" if kind is ResourceType.CLUSTER else f"--{_OPTIONS_OF[kind]} {_quoted(name)}"
        operations = " ".join(f"--operation {_camel_case(acl.operation)}" for acl in group)
        print(f"ottla acls --add --allow-principal {_quoted(principal)} \\\n  {operations} \\\n  {option}")


def _by_resource(acl: Acl) -> tuple[ResourceType, str, str]:
    return acl.resource_type, acl.name, acl.principal


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
