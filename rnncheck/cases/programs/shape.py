"""What a program compares, and its text around the parts of the pipeline."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from rnncheck.cases.model import CaseError, StoredCase
from rnncheck.cases.programs.parts import ProgramParts
from rnncheck.cases.programs.texts import WIDTH, code_of, folded, quotable

_SAME = """\
apart = (one - other).abs()
at = int(apart.argmax())
print({first}, one.flatten()[at].item())
print({second}, other.flatten()[at].item())
sys.exit(bool(apart.max() > 1e-5 * max(1.0, float(one.abs().max()))))
"""
_DIFFERENT = """\
at = int((one - other).abs().argmax())
print({first}, one.flatten()[at].item())
print({second}, other.flatten()[at].item())
sys.exit(bool((one - other).abs().max() <= 1e-7 * float(one.abs().max())))
"""


@dataclass(frozen=True)
class Shape:
    """One way to show a fault.

    ``asks`` makes the parts that ``body`` needs. ``body`` sets ``one`` and ``other``, which are
    ``said`` to be two things; while the fault is there they differ, or, where they ``should
    differ``, they are the same. Without ``said`` the body prints and exits by itself. ``mended``
    says what --mended does, where it does anything; ``rewritten`` are words of the parts and what
    stands for them, so that it does.
    """

    asks: Callable[[ProgramParts], None]
    body: Callable[[ProgramParts], str]
    said: tuple[str, str] | None = None
    should_differ: bool = False
    mended: str = ""
    rewritten: tuple[str, str] | None = None

    def text(self, parts: ProgramParts, seed: int) -> str:
        """The whole program. Raises CaseError where a part cannot be written."""
        self.asks(parts)
        body = self.body(parts)
        made = parts.text()
        if self.rewritten is not None:
            if self.rewritten[0] not in made:
                raise CaseError(f"the pipeline has no {self.rewritten[0]}")
            made = made.replace(*self.rewritten)
        if self.said is not None:
            tail = _DIFFERENT if self.should_differ else _SAME
            first, second = (code_of(f"{one}:") for one in self.said)
            body += tail.format(first=first, second=second)
        imports = _imports(parts)
        whole = f"torch.manual_seed({seed})\n{made}\n{body}"
        return "\n".join([*_head(parts, self), *imports, "", _spaced(whole)])


def _head(parts: ProgramParts, shape: Shape) -> list[str]:
    """What the program is about."""
    case = parts.case
    version = case.environment.packages.get("torchrl", "")
    first = f"{case.code} {case.name}, torchrl {version}: exits 1 while it is there."
    lines = [f'"""{quotable(first)}', "", *_paragraph(quotable(_cause(case)))]
    if shape.mended:
        lines += _paragraph(f"With --mended {shape.mended}, and it exits 0.")
    return [*lines, '"""', ""]


def _cause(case: StoredCase) -> str:
    parts = case.seen.reason.split("|")
    cause = parts[2] if len(parts) > 2 else case.seen.message
    return f"{cause[:1].upper()}{cause[1:]}."


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False)


def _imports(parts: ProgramParts) -> list[str]:
    lines = ["import sys"]
    if parts.folder:
        lines += ["", f"sys.path.insert(0, {code_of(parts.folder)})  # your modules"]
    lines += ["", "import torch"]
    for module, names in sorted(parts.writer.imports.items()):
        one = f"from {module} import {', '.join(sorted(names))}"
        fits = len(one) <= WIDTH
        lines += [one] if fits else folded(f"from {module} import ({', '.join(sorted(names))})")
    return lines


def _spaced(text: str) -> str:
    """Two empty lines around each function, elsewhere those that are there, one at most."""
    try:
        statements = ast.parse(text).body
    except SyntaxError as error:
        raise CaseError(f"what was built cannot be written as Python ({error.msg})") from error
    source, lines, before = text.splitlines(), list[str](), 0
    was_function = False
    for one in statements:
        function = isinstance(one, ast.FunctionDef)
        decorators = one.decorator_list if isinstance(one, ast.FunctionDef) else []
        first = min([one.lineno, *(each.lineno for each in decorators)])
        apart = 2 if function or was_function else min(1, first - before - 1)
        lines += [""] * (apart if lines else 0) + source[first - 1 : one.end_lineno]
        before, was_function = one.end_lineno or first, function
    return "\n".join(lines) + "\n"
