"""Which lines of a script may run again and again."""

from __future__ import annotations

import ast

import pytest

from rnncheck.watching.forms.source_scopes import ScriptSources

MAIN = """{decorator}
def main():
    wanted = make()
    for _ in range(9):
        step()
{call}"""


@pytest.mark.parametrize(
    ("decorator", "call", "again"),
    [
        pytest.param("@hydra.main()", "main()", False, id="called by its name"),
        pytest.param("@app.command()", "app()", True, id="called by another name"),
        pytest.param("@wraps", "for _ in range(3):\n    main()", True, id="called in a loop"),
        pytest.param("@wraps", "run(main)", True, id="handed on"),
    ],
)
def test_a_decorated_function(decorator: str, call: str, again: bool) -> None:
    sources = ScriptSources({"train.py": ast.parse(MAIN.format(decorator=decorator, call=call))})
    (line,) = [one for one in sources.nodes if isinstance(one.at, ast.Assign)]
    (step,) = [one for one in sources.nodes if ast.unparse(one.at) == "step()" and one.loop][:1]
    assert sources.is_repeated(line) is again
    assert sources.is_repeated(step)
