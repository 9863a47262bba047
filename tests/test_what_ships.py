"""The wheel holds what users can reach, and nothing else.

Users reach the command `ottla`, the pytest plugin and its fixtures, the data source that Spark loads, `python -m ottla`, and the names that
README.md and docs/ show. From there the syntax trees of src/ are followed, definition by definition; what is left over belongs to tests/
or trials/, or goes.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
COMMANDS = "ottla.cli.commands"
SITE = "ottla.spark.python_path.sitecustomize"
"""Python imports it by that name."""
NOT_FOR_USERS = {"ARCHITECTURE.md", "HACKING.md", "GLOSSARY.md", "conformance.md"}
ENUMERATIONS = {"Enum", "IntEnum", "StrEnum", "IntFlag"}
BASES_THAT_CALL_NOTHING = {"Protocol", "Generic", "NamedTuple", "ABC", "Exception", "RuntimeError", "ValueError", *ENUMERATIONS}
"""Any other base from elsewhere (click's, PySpark's, asyncio's) may call a method of its subclass by its name."""

# These may only get shorter.
IN_WORK = "ottla.history"
"""A package that is being rebuilt: what it does not use yet, or not any more, is let pass, and so are its names."""
MAY_BE_UNREACHED = dict.fromkeys(
    ("ottla.protocol.record_codec.encode_record", "ottla.protocol.record_codec.Schema.lowest_version"),
    "the writing half of the codec of all records: the coordinators' encoders become it",
)
MAY_HAVE_UNUSED_MEMBERS = {"ApiKey": "Kafka's own list, whole: docs/apis.md and messages name keys that no code handles"}
TO_BE_RENAMED = "two meanings: one is to be renamed"
MAY_SHARE_A_NAME = {
    **dict.fromkeys(("KafkaError", "TopicPartition", "OffsetAndMetadata", "OffsetOutOfRangeError"), "libraries' names"),
    **dict.fromkeys(("ClusterMetadata", "TopicMetadata", "PartitionMetadata"), "confluent-kafka's names for users"),
    **dict.fromkeys(("Broker", "Cluster"), "the embedded broker and cluster, and the pytest plugin's with verbs for tests"),
    **dict.fromkeys(
        ("Batch", "Brokers", "Columns", "DescribedMember", "Display", "Endpoint", "EpochEnd", "Loaded", "Partition", "State"), TO_BE_RENAMED
    ),
    **dict.fromkeys(("FetchSession", "FetchSessions", "FetchedOffset", "Findings", "Group", "GroupAssignment"), TO_BE_RENAMED),
    **dict.fromkeys(("GroupSettings", "ListedGroup", "ListedOffset", "Lookups", "OffsetReader", "OffsetRow"), TO_BE_RENAMED),
    **dict.fromkeys(("Offsets", "Positions", "ProducerEnd", "Progress", "Reader", "Replay"), TO_BE_RENAMED),
    **dict.fromkeys(("ScannedBatches", "Seen", "SourceOptions", "TopicSettings"), TO_BE_RENAMED),
}


@dataclass
class Module:
    """A source file: its definitions by name, what it imports, and the statements that run when it is imported."""

    name: str
    tree: ast.Module
    is_package: bool
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    statements: list[ast.stmt] = field(default_factory=list)

    def __post_init__(self) -> None:
        for statement in self.tree.body:
            self._read(statement)
        for node in ast.walk(self.tree):  # imports inside functions as well
            if isinstance(node, ast.ImportFrom):
                self.imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                self.modules |= {alias.name for alias in node.names}
                for alias in node.names:
                    first = alias.name.split(".")[0]
                    self.imports[alias.asname or first] = alias.name if alias.asname else first

    def _read(self, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.definitions.setdefault(statement.name, []).append(statement)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                nodes = [node for target in targets for node in ast.walk(target)]
                names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
                for name in names:
                    self.definitions.setdefault(name, []).append(statement)
                if not names:
                    self.statements.append(statement)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case ast.If() | ast.Try():
                handlers = statement.handlers if isinstance(statement, ast.Try) else []
                for block in (statement.body, statement.orelse, *(handler.body for handler in handlers)):
                    for inner in block:
                        self._read(inner)
            case _:
                self.statements.append(statement)


@cache
def modules() -> dict[str, Module]:
    """Every module of src/ by its dotted name."""
    by_name = {}
    for path in sorted(SRC.rglob("*.py")):
        is_package = path.name == "__init__.py"
        name = ".".join((path.parent if is_package else path.with_suffix("")).relative_to(SRC).parts)
        by_name[name] = Module(name, ast.parse(path.read_text()), is_package)
    return by_name


@cache
def resolve(dotted: str) -> tuple[str, str] | None:
    """The module and the definition in it ("" for the module itself) that a dotted name means, through re-exports; None outside of src/."""
    if dotted in modules():
        return dotted, ""
    home, _, name = dotted.rpartition(".")
    while home and home not in modules():  # module.Class.method is the class
        home, _, name = home.rpartition(".")
    if not home:
        return None
    if name in modules()[home].definitions:
        return home, name
    return resolve(modules()[home].imports[name]) if name in modules()[home].imports else None


def mentions(module: Module, tree: ast.AST) -> Iterator[str]:
    """Dotted names that a syntax tree may mean: names, attributes of modules, modules that are loaded by their names."""
    of_their_keys = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute():
                names = [node.attr]
                inner = node.value
                while isinstance(inner, ast.Attribute):
                    names.append(inner.attr)
                    inner = inner.value
                if isinstance(inner, ast.Name) and inner.id in module.imports:
                    yield ".".join((module.imports[inner.id], *reversed(names)))
            case ast.Name(id=name):
                yield from (f"{module.name}.{name}", module.imports.get(name, ""))
            case ast.Dict():  # {"Name": "the module that holds it"}
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and value.value in modules():
                        of_their_keys[value] = f"{value.value}.{key.value}"
            case ast.Constant() if node in of_their_keys:
                yield of_their_keys[node]
            case ast.Constant(value=str(text)) if " import " in text:  # a program in a string
                yield from imported_names(text)
            case ast.Constant(value=str(text)) if "." in text and text in modules():
                yield from (f"{text}.{name}" for name in modules()[text].definitions if not name.startswith("_"))
            case ast.Call(func=ast.Name(id="drop_ins"), args=[package, ast.Constant(value=str(constant)), *_]):
                yield from drop_ins(module.imports[package.id] if isinstance(package, ast.Name) else module.name, constant)


def drop_ins(package: str, constant: str) -> Iterator[str]:
    """The constants that `ottla.discovery` finds in a folder."""
    for name in modules():
        if name.rpartition(".")[0] == package and not name.rpartition(".")[2].startswith("_"):
            yield f"{name}.{constant}"


def imported_names(text: str) -> Iterator[str]:
    for home, names in re.findall(r"from (ottla[\w.]*) import (\([^)]*\)|[^\n`#;]+)", text):
        yield from (f"{home}.{name.split(' as ')[0].strip()}" for name in names.strip("()").split(","))


@cache
def pages_for_users() -> str:
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    return "\n".join(path.read_text() for path in pages if path.name not in NOT_FOR_USERS)


@cache
def words_for_users() -> set[str]:
    return set(re.findall(r"\w+", pages_for_users()))


def entry_points() -> Iterator[str]:
    """What the command line, pytest, Spark and `python -m ottla` start with, names of `ottla` itself, and names that pages show."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from (target.replace(":", ".") for target in project["scripts"].values())
    yield from ("ottla.__main__", "pyspark_ottla", "pyspark_ottla.DefaultSource", SITE, *drop_ins(COMMANDS, "COMMAND"))
    for plugin in project["entry-points"]["pytest11"].values():
        for name, (definition, *_) in modules()[plugin].definitions.items():
            decorators = definition.decorator_list if isinstance(definition, ast.FunctionDef) else []
            if name.startswith("pytest_") or any("fixture" in ast.unparse(decorator) for decorator in decorators):
                yield f"{plugin}.{name}"
    yield from (f"ottla.{name}" for name in modules()["ottla"].imports)
    yield from re.findall(r"\bottla(?:\.[A-Za-z_]\w*)+", pages_for_users())
    yield from imported_names(pages_for_users())


def bases_of(module: Module, definition: ast.stmt) -> Iterator[ast.ClassDef | str]:
    """The classes of src/ that a class inherits from, nearest first, and the names of those that come from elsewhere."""
    for base in definition.bases if isinstance(definition, ast.ClassDef) else ():
        plain = base.value if isinstance(base, ast.Subscript) else base
        target = next(filter(None, map(resolve, mentions(module, plain))), None)
        if target is None:
            yield ast.unparse(plain).rpartition(".")[2]
        elif isinstance(inherited := modules()[target[0]].definitions[target[1]][0], ast.ClassDef):
            yield inherited
            yield from bases_of(modules()[target[0]], inherited)


def methods_of(definition: ast.ClassDef | str) -> list[str]:
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    return [node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_special(name: str) -> bool:
    """Whether Python, or Jupyter, calls it."""
    return name.startswith("_") and name.endswith("_")


def registers_itself(module: Module, definition: ast.stmt) -> bool:
    """Whether a decorator hands it to an object of its module (`@COMMAND.command()`), or a base class collects its subclasses."""
    for decorator in getattr(definition, "decorator_list", ()):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in module.definitions:
            return True
    return any("__init_subclass__" in methods_of(base) for base in bases_of(module, definition))


@cache
def reached() -> set[tuple[str, str]]:
    """Every (module, definition) that users reach; (module, "") says that the module is imported."""
    seen: set[tuple[str, str]] = set()
    waiting = [target for target in map(resolve, entry_points()) if target]
    while waiting:
        home, name = target = waiting.pop()
        if target in seen:
            continue
        seen.add(target)
        module = modules()[home]
        trees = module.definitions[name] if name else module.statements
        waiting += [target for tree in trees for dotted in mentions(module, tree) if (target := resolve(dotted))]
        if name:
            waiting.append((home, ""))
            continue
        packages = home.split(".")
        waiting += [(".".join(packages[:length]), "") for length in range(1, len(packages))]
        waiting += [(target[0], "") for dotted in (*module.imports.values(), *module.modules) if (target := resolve(dotted))]
        for other, (definition, *_) in module.definitions.items():
            if is_special(other) or registers_itself(module, definition):
                waiting.append((home, other))
    return seen


def test_users_reach_every_definition() -> None:
    unreached = [f"{home}.{name}" for home, module in modules().items() for name in module.definitions if (home, name) not in reached()]
    assert [name for name in unreached if name not in MAY_BE_UNREACHED and not name.startswith(IN_WORK)] == []


def test_users_reach_every_file() -> None:
    assert [name for name in modules() if (name, "") not in reached() and not name.startswith(IN_WORK)] == []


@cache
def classes() -> list[tuple[str, ast.ClassDef, set[str]]]:
    """Every class: its module, itself, and the names of its bases that are not of src/."""
    rows = []
    for home, module in modules().items():
        for definition, *_ in module.definitions.values():
            if isinstance(definition, ast.ClassDef):
                rows.append((home, definition, {base for base in bases_of(module, definition) if isinstance(base, str)}))
    return rows


@cache
def uses() -> tuple[Counter[str], set[str]]:
    """How often src/ reads each name (also as an attribute, keyword or text); which names it calls, indexes, iterates or passes on."""
    count: Counter[str] = Counter()
    wholes: list[ast.expr] = []
    for module in modules().values():
        for node in ast.walk(module.tree):
            match node:
                case ast.Name(id=word, ctx=ast.Load()) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
                    count[word] += 1
                case ast.Constant(value=str(text)) if text.isidentifier():
                    count[text] += 1
                case ast.MatchClass(kwd_attrs=attributes):
                    count.update(attributes)
            match node:
                case ast.Call():
                    wholes += [node.func, *node.args]
                case ast.Subscript(value=whole) | ast.Starred(value=whole) | ast.For(iter=whole) | ast.comprehension(iter=whole):
                    wholes.append(whole)
    return count, {whole.id for whole in wholes if isinstance(whole, ast.Name)}


def test_every_method_has_a_caller() -> None:
    """In src/, or by the word of a page for users. Classes of `ottla` itself have the methods of the libraries that they stand for."""
    known = uses()[0].keys() | words_for_users()
    facades = {target for dotted in modules()["ottla"].imports.values() if (target := resolve(dotted))}
    dead = [
        f"{home}.{definition.name}.{method}"
        for home, definition, foreign_bases in classes()
        if foreign_bases <= BASES_THAT_CALL_NOTHING and (home, definition.name) not in facades
        for method in methods_of(definition)
        if method not in known and not is_special(method)
    ]
    assert [name for name in dead if name not in MAY_BE_UNREACHED and not name.startswith(IN_WORK)] == []


def test_every_member_of_an_enumeration_is_used() -> None:
    """By its name, unless the enumeration is called, indexed, iterated or passed on: that may give any member."""
    used, wholes = uses()
    dead = [
        f"{home}.{definition.name}.{target.id}"
        for home, definition, foreign_bases in classes()
        if ENUMERATIONS & foreign_bases and definition.name not in wholes | MAY_HAVE_UNUSED_MEMBERS.keys()
        for statement in definition.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id not in used
    ]
    assert dead == []


def test_a_class_name_means_one_thing() -> None:
    """Kafka's requests have Kafka's names wherever they occur: as the broker's handler, a command of a group, the client's request."""
    apis = {
        "".join(map(str.title, key.split("_")))
        for key in re.findall(r"^    ([A-Z_]+) = ", (SRC / "ottla/protocol/wire/api_keys.py").read_text(), re.M)
    }
    homes: dict[str, set[str]] = {}
    for home, definition, _ in classes():
        if not definition.name.startswith("_") and not home.startswith(IN_WORK) and definition.name.removesuffix("Response") not in apis:
            homes.setdefault(definition.name, set()).add(home)
    shared = {name for name, places in homes.items() if len(places) > 1}
    assert {name: homes[name] for name in sorted(shared - MAY_SHARE_A_NAME.keys())} == {}
    assert sorted(MAY_SHARE_A_NAME.keys() - shared) == [], "take these off the list"
