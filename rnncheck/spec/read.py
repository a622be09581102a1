"""YAML text to plain data, with the line and column of every key and item."""

from __future__ import annotations

import bisect
import pathlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from rnncheck.errors import Place, SpecError
from rnncheck.spec.model import KeyPath
from rnncheck.spec.problems import Problems, dotted_path, shown

# Limits against files that are no specs: the fixtures have up to 2300 bytes, 100 values and 8
# levels, so that each limit is several times what any spec needs. 20,000 values take 2.5 s to read
# on two busy cores; a full MiB of brackets takes 48 s until the values are too many.
MAX_BYTES = 2**20
MAX_VALUES = 20_000  # after every alias has been unfolded
MAX_DEPTH = 48  # well inside Python's recursion limit: 300 levels are read without reaching it
MAX_INT_BITS = 64  # the widest integer that torch has
PYTHON = (".py", ".pyw", ".ipynb")
PYTHON_SAID = (
    "is Python, not a spec: a spec is a YAML file that names the env, the policy and the other"
    " parts of a pipeline, or your functions that make them"
)

_TAG = "tag:yaml.org,2002:"
_SCALARS = {_TAG + name for name in ("str", "int", "float", "bool", "null")}
_TEXT = {_TAG + name for name in ("timestamp", "value")}  # plain scalars that stay text


@dataclass
class Document:
    """A spec as plain data. ``places`` maps a path to where its key or item stands.

    ``unread`` are the paths whose value could not be read: None stands for it in ``data``.
    """

    name: str
    data: Any
    places: dict[KeyPath, Place] = field(default_factory=dict)
    unread: set[KeyPath] = field(default_factory=set)

    def locate(self, at: KeyPath) -> Place:
        """The place of ``at``, or of its nearest ancestor that has one."""
        for length in range(len(at), -1, -1):
            if at[:length] in self.places:
                return self.places[at[:length]]
        return Place(self.name)

    def forget(self, at: KeyPath) -> None:
        """Drop the places at and below ``at``."""
        for path in [path for path in self.places if path[: len(at)] == at]:
            del self.places[path]
        self.unread -= {path for path in self.unread if path[: len(at)] == at}


def read_text(path: pathlib.Path) -> str:
    """The file's text; every reason why it cannot be read is a SpecError."""
    place = Place(str(path))
    try:
        if path.is_dir():
            raise SpecError("is a folder, not a spec file", place=place, hint=_in_folder(path))
        if path.suffix in PYTHON and path.is_file():
            raise SpecError(PYTHON_SAID, place=place, hint="write one with `rnncheck init`")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        hint = "check the path, or write a spec with `rnncheck init`"
        raise SpecError("the spec file does not exist", place=place, hint=hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"the spec cannot be read: {reason}", place=place) from None
    if len(raw) > MAX_BYTES:
        raise SpecError("the spec is larger than 1 MiB", place=place, accepted="at most 1 MiB")
    return _decode(raw, place.path)


def _in_folder(path: pathlib.Path) -> str:
    for name in ("rnncheck.yaml", "rnncheck.yml"):
        if (path / name).is_file():
            return f"did you mean {path / name}?"
    return "name a YAML file"


def _decode(raw: bytes, name: str) -> str:
    if raw.startswith(b"PK\x03\x04"):  # a zip file
        hint = f"what `rnncheck run --save` kept is judged by `rnncheck verify {name}`"
        raise SpecError("this is no spec", place=Place(name), hint=hint)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = error.start - (before.rfind(b"\n") + 1)
        place = Place(name, before.count(b"\n") + 1, column + 1)
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        raise SpecError(message, place=place, hint="save the file as UTF-8") from None


def parse(text: str, name: str, fixed: Place | None = None) -> tuple[Document, Problems]:
    """Read one YAML document. ``fixed`` is the place of everything in it, for ``--set``."""
    marks = _Marks(text, name, fixed)
    node = _compose(text, marks)
    document = Document(name, None)
    problems = Problems(document.locate, document.unread)
    document.places[()] = marks.start()
    if node is not None:
        document.data = _Unfolding(document, problems, marks.of).value(node, ())
    return document, problems


class _Marks:
    """ruamel's marks as places that lie inside the file."""

    def __init__(self, text: str, name: str, fixed: Place | None) -> None:
        self.text, self.name, self.fixed = text, name, fixed
        self.starts = [0, *(i + 1 for i, char in enumerate(text) if char == "\n")]

    def start(self) -> Place:
        return self.at(0)

    def of(self, mark: Any) -> Place:
        return self.at(mark.index)

    def at(self, index: int) -> Place:
        """The place of a character; the end of the text counts as its last character."""
        if self.fixed is not None:
            return self.fixed
        index = max(0, min(index, len(self.text.rstrip()) - 1))
        line = bisect.bisect_right(self.starts, index)
        return Place(self.name, line, index - self.starts[line - 1] + 1)


def _compose(text: str, marks: _Marks) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor that is defined twice is legal YAML
            node: Node | None = yaml.compose(text)
            return node
    except ReaderError as error:
        code = error.character if isinstance(error.character, int) else ord(error.character)
        message = f"character U+{code:04X} is not allowed in YAML"
        raise SpecError(message, place=marks.at(error.position)) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = marks.of(mark) if mark is not None else marks.start()
        message, hint = _yaml_sentence(error)
        raise SpecError(message, place=place, hint=hint) from None
    except (YAMLError, RecursionError):
        raise SpecError("not valid YAML", place=marks.start()) from None
    except Exception as error:  # the parser's own slips on malformed text must not reach the user
        message = f"not valid YAML ({type(error).__name__} in the parser)"
        raise SpecError(message, place=marks.start()) from None


_YAML_SENTENCES = (  # what ruamel's message contains, what is said instead, what to do
    ("\\t", "a tab stands where YAML wants spaces", "indent with spaces"),
    ("tab character", "a tab stands where YAML wants spaces", "indent with spaces"),
    ("another document", "the file holds more than one YAML document", "keep one spec per file"),
    ("maximum depth", f"nested more than {MAX_DEPTH} levels deep", ""),
    ("undefined alias", "the alias names an anchor that is not defined above it", ""),
    (
        "mapping values are not allowed",
        "a ':' stands where no key may",
        "check the indentation; quote a text that contains ': '",
    ),
    ("<block end>", "the indentation does not fit the lines above", "align it with its neighbours"),
    ("could not find expected ':'", "a ':' is missing behind a key", "write `key: value`"),
    ("unexpected end of stream", "a quote is opened and never closed", ""),
)


def _yaml_sentence(error: MarkedYAMLError) -> tuple[str, str]:
    """The parser's complaint in our words, and what to do."""
    problem = " ".join(str(error.problem or error.context or "").split())
    for part, message, hint in _YAML_SENTENCES:
        if part in problem:
            return message, hint
    return f"not valid YAML: {problem}", ""


class _TooMuch(SpecError):
    """A limit is passed: reading on would take for ever."""


class _Unfolding:
    """Nodes to plain data: aliases and merge keys unfolded, within a limit, each value a copy."""

    def __init__(
        self, document: Document, problems: Problems, place_of: Callable[[Any], Place]
    ) -> None:
        self.document, self.problems, self.place_of = document, problems, place_of
        self.constructor = YAML(typ="safe", pure=True).constructor
        self.values = 0
        self.open: set[int] = set()  # the nodes being unfolded: one inside itself is a cycle
        self.reported: set[int] = set()

    def value(self, node: Node, at: KeyPath) -> Any:
        """The value, or None where the spec says something there that no value can be."""
        self._count(node)
        with self._noting():
            return self._value(node, at)
        self.document.unread.add(at)
        return None

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note what is wrong with one value and go on: the others may have mistakes too."""
        try:
            yield
        except _TooMuch:
            raise
        except SpecError as error:
            self.problems.found.append(error)

    def _value(self, node: Node, at: KeyPath) -> Any:
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        with self._guard(node):
            if isinstance(node, SequenceNode):
                return self._list(node, at)
            assert isinstance(node, MappingNode)  # YAML has three kinds of nodes
            return self._map(node, at)

    @contextmanager
    def _guard(self, node: Node) -> Iterator[None]:
        if id(node) in self.open:
            raise self._error(node, "an alias refers to the value that it is part of")
        self.open.add(id(node))
        try:
            yield
        finally:
            self.open.discard(id(node))

    def _count(self, node: Node) -> None:
        self.values += 1
        if self.values > MAX_VALUES:
            message = f"the spec holds more than {MAX_VALUES} values once its aliases are unfolded"
            raise _TooMuch(message, place=self.place_of(node.start_mark))

    def _error(self, node: Node, message: str, accepted: str = "") -> SpecError:
        return SpecError(message, place=self.place_of(node.start_mark), accepted=accepted)

    def _list(self, node: SequenceNode, at: KeyPath) -> list[Any]:
        self._expect_tag(node, _TAG + "seq")
        items = []
        for index, item in enumerate(node.value):
            self.document.places[(*at, index)] = self.place_of(item.start_mark)
            items.append(self.value(item, (*at, index)))
        return items

    def _map(self, node: MappingNode, at: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, (key_node, value_node) in self._pairs(node, at).items():
            self.document.places[(*at, key)] = self.place_of(key_node.start_mark)
            data[key] = self.value(value_node, (*at, key))
        return data

    def _pairs(self, node: MappingNode, at: KeyPath) -> dict[str, tuple[Node, Node]]:
        """A mapping's own keys, then those that `<<` brings and that are not there yet."""
        self._expect_tag(node, _TAG + "map")
        pairs: dict[str, tuple[Node, Node]] = {}
        sources: list[Node] = []
        for key_node, value_node in node.value:
            if str(key_node.tag) == _TAG + "merge":
                several = isinstance(value_node, SequenceNode)
                sources += value_node.value if several else [value_node]
                continue
            with self._noting():
                key = self._key(key_node)
                if key in pairs:
                    self._report_twice(key_node, pairs[key][0], (*at, key))
                pairs[key] = (key_node, value_node)
        for source in sources:
            with self._noting():
                for key, pair in self._merged(source, at).items():
                    pairs.setdefault(key, pair)
        return pairs

    def _merged(self, source: Node, at: KeyPath) -> dict[str, tuple[Node, Node]]:
        self._count(source)
        if not isinstance(source, MappingNode):
            raise self._error(source, "`<<` merges mappings only", accepted="<<: *anchor")
        with self._guard(source):
            return self._pairs(source, at)

    def _report_twice(self, node: Node, first: Node, at: KeyPath) -> None:
        if id(node) not in self.reported:  # a mapping that is merged is seen several times
            self.reported.add(id(node))
            line = self.place_of(first.start_mark).line
            before = f", first on line {line}" if line else ""
            message = f"the key {dotted_path(at)!r} is given twice{before}"
            self.problems.found.append(self._error(node, message))

    def _key(self, node: Node) -> str:
        self._count(node)
        key = self._scalar(node) if isinstance(node, ScalarNode) else None
        if isinstance(key, str):
            return key
        written = shown(key) if isinstance(node, ScalarNode) else "a list or mapping"
        message = f"a key must be text, not {written}"
        raise self._error(node, message, accepted='a name; put other keys into quotes: "1"')

    def _scalar(self, node: ScalarNode) -> Any:
        tag = str(node.tag)
        if tag in _TEXT:
            return str(node.value)
        self._expect_tag(node, *_SCALARS)
        try:
            value = self.constructor.construct_object(node)
        except Exception:  # a tag that the text does not fit: `!!int abc`
            name = tag.removeprefix(_TAG)
            raise self._error(node, f"{shown(node.value)} is no valid {name}") from None
        return self._checked(node, value)

    def _checked(self, node: ScalarNode, value: Any) -> Any:
        if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
            raise self._error(node, f"the number is longer than {MAX_INT_BITS} bits")
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise self._error(node, "the text contains half of a surrogate pair")
        return value

    def _expect_tag(self, node: Node, *allowed: str) -> None:
        tag = str(node.tag)
        if tag not in allowed:
            name = tag.replace(_TAG, "!!")
            message = f"the tag {name} is not allowed: a spec is plain data"
            raise self._error(node, message, accepted="text, numbers, true/false, lists, mappings")
