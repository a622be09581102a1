"""Which loops of an update go round once where its lines are run again."""

import ast

import pytest

from rnncheck.watching.seams.epochs import of_one_epoch

EPOCHS = """
for epoch in range(4):
    order = shuffled()
    for rows in order.split(2):
        loss = loss_of(rows)
        loss.backward()
        optim.step()
"""


def rounds(text: str) -> list[str]:
    """What the lines shuffle and train on, of two minibatches."""
    done = list[str]()

    class Order:
        def split(self, _size):
            return ["first", "second"]

    class Loss:
        def __init__(self, rows):
            self.rows = rows

        def backward(self):
            done.append(self.rows)

    def shuffled():
        done.append("shuffled")
        return Order()

    made = ast.Module(of_one_epoch(ast.parse(text).body), [])
    optim = type("Optim", (), {"step": staticmethod(lambda: None)})
    exec(compile(made, "lines", "exec"), {"shuffled": shuffled, "loss_of": Loss, "optim": optim})
    return done


def test_one_epoch_is_enough():
    assert rounds(EPOCHS) == ["shuffled", "first", "second"]


def test_inside_of_other_statements_too():
    indented = "\n".join("    " + line for line in EPOCHS.splitlines())
    assert rounds(f"if True:\n{indented}\n") == ["shuffled", "first", "second"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("order = shuffled()", "order = shuffled()\n    seen = epoch"), id="number"),
        pytest.param(("range(4)", "[0, 1, 2, 3]"), id="no count"),
    ],
)
def test_rounds_that_may_differ_are_all_run(change):
    assert rounds(EPOCHS.replace(*change)) == ["shuffled", "first", "second"] * 4


def test_a_loop_over_minibatches_alone_is_run_whole():
    text = "for _ in range(3):\n    loss_of('drawn').backward()\n"
    assert rounds(text) == ["drawn"] * 3


def test_the_parsed_lines_stay_what_they_are():
    tree = ast.parse(EPOCHS)
    before = ast.dump(tree)
    of_one_epoch(tree.body)
    assert ast.dump(tree) == before
