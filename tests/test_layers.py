"""The layers of the design, held by walking every import, also the lazy ones. No exception is
allowed."""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from rnncheck.results.families import BY_FOLDER

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rnncheck"

FAMILIES = tuple(BY_FOLDER)
MAY_IMPORT = {
    "printable": set[str](),
    "importing": set[str](),
    "errors": set[str](),
    "roles": set[str](),
    "results": {"errors"},
    "spec": {"errors"},
    "supervisor": {"results", "errors"},
    "numerics": {"results", "errors"},
    "pipeline": {"spec", "numerics", "results", "supervisor", "errors", "roles"},
    "checks": {"pipeline", "numerics", "results", "supervisor", "spec", "errors"},
    "exhibits": {"checks", "pipeline", "numerics", "results", "errors"},
    "faults": {"pipeline", "numerics", "results", "spec", "errors"},
    "bench": {"pipeline", "numerics", "results", "spec", "errors", "importing"},
    "recall": {"pipeline", "numerics", "results", "spec", "errors"},
    "gate": {
        "checks",
        "exhibits",
        "bench",
        "recall",
        "pipeline",
        "numerics",
        "results",
        "spec",
        "errors",
    },
    "patch": {"checks", "results", "spec", "errors"},
    "watching": {
        "checks",
        "exhibits",
        "notebook",
        "pipeline",
        "numerics",
        "results",
        "spec",
        "errors",
        "roles",
    },
    "cases": {"checks", "watching", "pipeline", "numerics", "results", "spec", "errors"},
    "report": {"results", "errors"},
    "notebook": {"report", "results", "errors"},
}
# The rooms inside a layer: what each may import of its own layer. A room that is not named may
# import none of it.
ROOMS = {
    "pipeline": {
        "keys": set[str](),
        "placing": {"keys"},
        "compat": set[str](),
        "guard": {"placing"},
        "copying": {"guard"},
        "subject": {"keys", "placing", "guard", "copying"},
        "recording": {"keys", "placing", "guard", "subject"},
        "model": {"compat", "recording"},
        "instruments": {"keys", "placing", "guard", "copying", "subject", "model"},
        "plant": {"keys", "copying", "subject", "instruments"},
        "backends": {"keys", "copying", "subject"},
        "assembly": {
            "keys",
            "placing",
            "compat",
            "guard",
            "copying",
            "subject",
            "recording",
            "model",
            "instruments",
            "plant",
        },
        "workload": {
            "keys",
            "placing",
            "copying",
            "subject",
            "instruments",
            "backends",
            "assembly",
        },
        "doctor": {"compat", "backends"},
        "": {"backends"},  # the package itself
    },
    "checks": {
        "rule": set[str](),
        "catalogue": set[str](),
        "evidence": {"rule"},
        **{family: {"rule", "evidence"} for family in FAMILIES},
        "engine": {"rule", "catalogue", "evidence"},
        "": {"rule"},  # the package itself: what a check of the user's is made of
    },
}

# What a room of the checks may import of the pipeline: the families look at it, the engine runs it.
SEEN = {
    "rule": set[str](),
    "catalogue": set[str](),
    "evidence": {
        "keys",
        "placing",
        "guard",
        "copying",
        "subject",
        "recording",
        "model",
        "instruments",
    },
    **{
        family: {
            "keys",
            "placing",
            "compat",
            "guard",
            "copying",
            "subject",
            "recording",
            "instruments",
            "backends",
        }
        for family in FAMILIES
    },
    "engine": {"placing", "guard", "copying", "model", "backends", "assembly", "plant"},
    "": set[str](),
}
MOST_ROOMS = 14  # at the top level of a layer: more cannot be taken in at a glance
LEAF = "printable"  # may be imported by everything; it imports nothing of ours
TOP = {"api", "cli", "pytest_plugin", "__main__"}  # may import everything; nothing imports them
HEAVY = {"torch", "tensordict", "torchrl", "gymnasium", "hoptorch", "triton"}
TORCH_FREE = {"printable", "importing", "errors", "results", "spec", "report", "supervisor"}
TORCHRL = {"torchrl", "gymnasium", "hoptorch", "triton"}  # for the pipeline and what watches

RULE_FILE = r"rnncheck\.checks\.\w+\.[a-z]{2}\d{3}_\w+"

PASSED_OVER = {"build", "dist", "venv", "env", "node_modules", "CVS", "site-packages"}

MEDIAN_FUNCTION = 10  # lines; the median is below
LONG_FUNCTION = 35  # lines
LONG_SHARE = 0.05  # of all functions may be longer than that
LONG_FILE = 500  # lines; every file is below


@dataclass(frozen=True)
class Import:
    """One import statement's target, and whether it runs when its module is imported."""

    target: str
    line: int
    at_import: bool


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by dotted name."""
    return {_dotted(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def _dotted(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def imports(tree: ast.AST, package: str, at_import: bool = True) -> Iterator[Import]:
    """All imports below ``tree``; those in functions and under TYPE_CHECKING do not run at
    import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_import)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, at_import)
        else:
            yield from imports(node, package, at_import and not _is_deferred(node))


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _is_deferred(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def layer(module: str) -> str:
    """``results`` of ``rnncheck.results.model``; an empty string for the package itself."""
    return module.split(".")[1] if "." in module else ""


def room(module: str) -> str:
    """``assembly`` of ``rnncheck.pipeline.assembly.env_maker``; an empty string for the layer's own
    package."""
    return module.split(".")[2] if module.count(".") > 1 else ""


def imports_of(module: str, file: Path) -> list[Import]:
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    return list(imports(parsed(file), package))


def resolve(target: str) -> str:
    """The module that ``from a.b import c`` reads: ``a.b.c`` where that is a module, else
    ``a.b``."""
    known = modules()
    return target if target in known else target.rpartition(".")[0]


def forbidden(module: str, target: str) -> bool:
    """Whether ``module`` may not import ``target``, both inside the package."""
    source, goal = layer(module), layer(target)
    if goal == LEAF:
        return False
    if goal in TOP:
        return source not in TOP
    if source == goal and source in ROOMS:
        return room(target) not in {room(module), *ROOMS[source][room(module)]}
    if (source, goal) == ("checks", "pipeline"):
        return room(target) not in SEEN[room(module)]
    return source not in TOP and goal not in {source, ""} and goal not in MAY_IMPORT[source]


def _inside(target: str) -> bool:
    return target.split(".")[0] == "rnncheck"


ALL = [pytest.param(name, file, id=name) for name, file in modules().items()]


@pytest.mark.parametrize(("module", "file"), ALL)
def test_imports_stay_within_the_layers(module: str, file: Path) -> None:
    assert layer(module) in {"", *MAY_IMPORT, *TOP}, f"{module} belongs to no layer of the design"
    broken = [
        f"{file.relative_to(ROOT)}:{one.line} imports {one.target}"
        for one in imports_of(module, file)
        if _inside(one.target) and forbidden(module, resolve(one.target))
    ]
    assert not broken


@pytest.mark.parametrize("layer_", ROOMS)
def test_a_layer_is_taken_in_at_a_glance(layer_: str) -> None:
    found = {room(name) for name in modules() if layer(name) == layer_} - {""}
    assert found == set(ROOMS[layer_]) - {""}
    assert len(found) <= MOST_ROOMS


def test_no_rule_file_imports_another() -> None:
    rules = {name for name in modules() if re.fullmatch(RULE_FILE, name)}
    assert rules
    broken = {
        f"{name} imports {resolve(one.target)}"
        for name in rules
        for one in imports_of(name, modules()[name])
        if resolve(one.target) in rules
    }
    assert not broken


@pytest.mark.parametrize(("module", "file"), ALL)
def test_only_the_pipeline_knows_torchrl(module: str, file: Path) -> None:
    roots = {one.target.split(".")[0] for one in imports_of(module, file)}
    allowed = TORCHRL if layer(module) in ("pipeline", "watching") else set[str]()
    assert not (roots & TORCHRL) - allowed


@pytest.mark.parametrize(
    ("module", "file"), [one for one in ALL if layer(str(one.id)) in TORCH_FREE]
)
def test_no_torch_in_the_plain_layers(module: str, file: Path) -> None:
    assert not {one.target.split(".")[0] for one in imports_of(module, file)} & HEAVY


@pytest.mark.parametrize("start", [one.id for one in ALL if layer(str(one.id)) == "cli"])
def test_importing_the_cli_reaches_no_torch(start: str) -> None:
    files, seen, queue = modules(), set[str](), [start]
    while queue:
        module = queue.pop()
        if module in seen:
            continue
        seen.add(module)
        found = [one.target for one in imports_of(module, files[module]) if one.at_import]
        assert not {target.split(".")[0] for target in found} & HEAVY, f"{start} reaches {module}"
        queue += [resolve(target) for target in found if _inside(target)]


def test_no_folder_has_a_name_that_tools_pass_over() -> None:
    """pytest, ruff, black and many a .gitignore leave these out without a word."""
    folders = [path for root in (PACKAGE, ROOT / "tests") for path in root.rglob("*/")]
    assert len(folders) > 30
    assert not [str(path) for path in folders if path.name in PASSED_OVER]


def test_no_module_imports_in_a_circle() -> None:
    graph = {
        module: {resolve(one.target) for one in imports_of(module, file) if _inside(one.target)}
        for module, file in modules().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert {folder for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_files_are_short() -> None:
    lengths = {
        file: len(file.read_text(encoding="utf-8").splitlines()) for file in modules().values()
    }
    assert not {str(file): length for file, length in lengths.items() if length >= LONG_FILE}


def test_functions_are_short() -> None:
    lengths = {
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or 0)
        - node.lineno
        + 1
        for file in modules().values()
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = {name: length for name, length in lengths.items() if length > LONG_FUNCTION}
    assert statistics.median(lengths.values()) < MEDIAN_FUNCTION
    assert len(long) <= LONG_SHARE * len(lengths), long


@pytest.mark.parametrize(("module", "file"), [one for one in ALL if layer(str(one.id)) != "cli"])
def test_library_code_neither_prints_nor_exits(module: str, file: Path) -> None:
    calls = {
        ast.unparse(node.func) for node in ast.walk(parsed(file)) if isinstance(node, ast.Call)
    }
    own = ("rnncheck.__main__", "rnncheck.bench.worker")  # the first code of a process
    ends_processes = layer(module) == "supervisor" or module in own
    assert not calls & {"print", "exit", "quit", "sys.exit"}
    assert ends_processes or "os._exit" not in calls


def test_the_walk_sees_lazy_and_relative_imports() -> None:
    code = "def f():\n    from ..cli import app\nif TYPE_CHECKING:\n    import torch\nimport json\n"
    found = list(imports(ast.parse(code), "rnncheck.results"))
    assert [(one.target, one.at_import) for one in found] == [
        ("rnncheck.cli.app", False),
        ("torch", False),
        ("json", True),
    ]


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("rnncheck.checks.engine.run", "rnncheck.bench.plan"),
        ("rnncheck.bench.plan", "rnncheck.checks.rule"),
        ("rnncheck.report.junit", "rnncheck.spec.model"),
        ("rnncheck.pipeline.assembly.builder", "rnncheck.cli.app"),
        ("rnncheck.numerics.oracle", "rnncheck.pipeline.model"),
    ],
)
def test_the_table_refuses(module: str, target: str) -> None:
    assert forbidden(module, target)
