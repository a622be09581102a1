"""Functions that no import gives, as the forms of a saved run: where their code is in a file, and
what they hold. Lambdas, functions inside others, and the lines of a loop that are taken for the
loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Protocol

from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.watching.saving.definitions import code_in, digest_of
from rnncheck.watching.saving.import_paths import CannotKeep
from rnncheck.watching.seams.lines import LinesAround, around_of, lines_again

Node = dict[str, Any]


class EncodesCode(Protocol):
    """What gives the parts of a function their form."""

    def form(self, value: Any) -> Any:
        """The form of a part."""

    def module(self, name: str) -> str:
        """What the module is imported as."""

    def reads(self, value: Any) -> None:
        """Keep the globals that a function of the script reads."""


class DecodesCode(Protocol):
    """What makes the parts again."""

    def part(self, form: Any) -> Any:
        """The object of a form."""

    def module(self, told: Any) -> ModuleType:
        """The module that is named."""

    def early(self, number: int, made: Any) -> None:
        """What it holds may hold it."""


def function_node(encoder: EncodesCode, function: FunctionType) -> Node:
    """Where its code is, and what it holds."""
    code, name = function.__code__, function.__name__
    told = encoder.module(function.__module__ or "")
    path = Path(code.co_filename)
    if not (is_user_file(code.co_filename) and path.is_file()):
        raise CannotKeep(f"{name} has no name that it can be imported by")
    around = around_of(function)
    if around is None and code_in(path, code.co_qualname, digest_of(code)) is None:
        raise CannotKeep(f"{name} has no name that it can be imported by, and is not in its file")
    encoder.reads(function)
    known = () if around is None else around.known  # of another module, which has them later on
    held = function.__kwdefaults__
    own = held and {name: None if name in known else one for name, one in held.items()}
    return {
        "kind": "code",
        "of": told,
        "name": code.co_qualname,
        "digest": digest_of(code),
        "lines": None if around is None else encoder.form(_told(around)),
        "inside": None if around is None else _inside(encoder, around),
        "cells": [encoder.form(cell.cell_contents) for cell in function.__closure__ or ()],
        "defaults": encoder.form(function.__defaults__),
        "keywords": encoder.form(own),
    }


def function_again(decoder: DecodesCode, node: Node, number: int) -> FunctionType:
    """The function with the code that is in the file, if it is what it was."""
    module = decoder.module(node["of"])
    path, name = Path(str(module.__file__)), str(node["name"])
    code = _code(decoder, node, path)
    if code is None or digest_of(code) != node["digest"]:
        raise CannotKeep(f"{name} in {path.name} is not what it was when the run was saved")
    cells = tuple(CellType() for _ in code.co_freevars)
    made = FunctionType(code, module.__dict__, code.co_name, None, cells)
    decoder.early(number, made)
    for cell, form in zip(cells, node["cells"], strict=True):
        cell.cell_contents = decoder.part(form)
    made.__defaults__ = decoder.part(node["defaults"])
    made.__kwdefaults__ = decoder.part(node["keywords"])
    if (inside := node.get("inside")) is not None and inside[0] is not None:
        theirs = vars(decoder.module(inside[0]))
        made.__kwdefaults__ |= {str(known): theirs[known] for known in inside[1]}
    return made


def _code(decoder: DecodesCode, node: Node, path: Path) -> CodeType | None:
    if node["lines"] is None:
        return code_in(path, str(node["name"]), str(node["digest"]))
    line, names, *behind = decoder.part(node["lines"])
    around = LinesAround(line, tuple(names), *behind)
    if around.inside is not None:
        (first, at, _), (module, _, given) = around.inside, node["inside"]
        name = "" if module is None else decoder.module(module).__name__
        pairs = tuple((str(one), str(other)) for one, other in given)
        around = replace(around, inside=(first, at, name), given=pairs)
    return lines_again(str(path), around, list(decoder.part(node["keywords"])))


def _inside(encoder: EncodesCode, around: LinesAround) -> list[Any] | None:
    """Of lines of another function: its module, where that is another one, what they know of it,
    and what they were given."""
    if around.inside is None:
        return None
    name = around.inside[2]
    return [encoder.module(name) if name else None, list(around.known), list(around.given)]


def _told(around: LinesAround) -> list[Any]:
    if around.since is not None or around.without:
        ahead = [around.since, around.without]
        return [around.line, list(around.names), None, False, None, *ahead]
    if around.anew:
        return [around.line, list(around.names), None, True]
    behind = [] if around.behind is None else [around.behind]
    inside = [] if around.inside is None else [False, around.inside]
    return [around.line, list(around.names), *behind, *inside]
