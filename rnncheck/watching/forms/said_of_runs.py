"""What is said of lines that hold the steps of a plain loop where not all of it is known."""

from __future__ import annotations

import numpy as np
from tensordict import TensorDictBase

from rnncheck.watching.forms.plain_calls import PlainCall
from rnncheck.watching.forms.storages import HeldPart, OfNumbers, Spoilt
from rnncheck.watching.forms.structures import Path


def said_of_doubt(path: Path, part: HeldPart, whole: TensorDictBase, acts: PlainCall) -> str:
    """Of what holds something of each of the steps ``whole`` ``[rows, steps]`` that is neither what
    the env gave nor what the call that ``acts`` did."""
    rows, steps = whole.shape
    shape = getattr(part.value, "shape", None) if isinstance(part, Spoilt) else None
    of_rows = shape is not None and np.prod(shape) == rows
    what = f"envs, or of what lies behind their {steps} steps," if of_rows else "steps"
    held = f"something of each of the {rows if of_rows else steps} {what}"
    held = "a number of each episode" if isinstance(part, OfNumbers) else held
    return (
        f"`{'.'.join(path)}` holds {held}"
        f" that is neither what the env showed or gave nor what `{acts.code.co_name}` returned:"
        " what is made of that must be made behind the steps, in the lines that lead to `backward`"
    )


def said_of_nowhere(whole: TensorDictBase) -> str:
    """Of lines that nothing of the steps was found in."""
    return (
        "no variable that the lines between the steps and `backward` read holds what the env showed"
        f" in the {whole.shape[1]} steps: keep them in lists, tensors or arrays, or in an object"
        " that holds such"
    )
