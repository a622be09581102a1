"""A pipeline of a test's own: a module beside a spec that names its factories."""

from __future__ import annotations

from pathlib import Path


def written(folder: Path, name: str, module: str, stages: str) -> Path:
    """Write ``module`` as ``name`` and a spec with ``stages`` into ``folder``; the spec's path."""
    (folder / f"{name}.py").write_text(module)
    path = folder / "rnncheck.yaml"
    path.write_text(f"schema: 1\nname: {name}\n{stages}")
    return path
