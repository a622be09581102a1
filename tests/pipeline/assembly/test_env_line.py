"""The line that a finding of the env points at."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncheck.pipeline.assembly.factories import importable, transforms_source
from rnncheck.spec.load import load_spec

FIXTURES = Path(__file__).parent.parent.parent.parent / "fixtures"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("reference/recurrent_dqn.yaml", "Compose("),
        ("reference/recurrent_ppo.yaml", "env.append_transform("),
        ("specs/nested_own_cell.yaml", "TransformedEnv(Lanes(lanes), Compose("),
        ("specs/cartpole_dqn.yaml", "transforms:"),
    ],
)
def test_the_line_of_an_env_is_where_its_transforms_are(spec: str, line: str) -> None:
    loaded = load_spec(FIXTURES / spec)
    with importable(loaded.folder):
        found = transforms_source(loaded, loaded.env)
    assert line in dict(found.frame)[found.line]
