"""Whether this processor has recurrent kernels for a narrow float type: run once to find out.

torch hands an LSTM on the CPU to oneDNN, which has bfloat16 and float16 only where the processor
has instructions for them. torch asks first and uses slower kernels of its own else, but not under
autocast: there oneDNN's refusal is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import torch
from torch import Tensor, nn

from rnncheck.errors import first_line

_Layer = Literal["lstm", "gru"]
NARROW_DTYPES: Final = (torch.bfloat16, torch.float16)
_NO_KERNEL = "could not create a primitive"  # how oneDNN says that it has none
_SIZE = 4  # features and hidden units of what is tried: any small number


@dataclass(frozen=True)
class LayerTrial:
    """A small layer on the CPU, in ``dtype`` itself or in float32 under autocast to it."""

    kind: _Layer
    dtype: torch.dtype
    autocast: bool = False

    @property
    def dtype_name(self) -> str:
        """``bfloat16``."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def label(self) -> str:
        """``bfloat16 LSTM under autocast``."""
        return f"{self.dtype_name} {self.kind.upper()}{self.region}"

    @property
    def region(self) -> str:
        """What surrounds it, at the end of a sentence."""
        return " under autocast" if self.autocast else ""


# torch's autocast on the CPU leaves a GRU in float32: there is nothing to try.
_TRIED: Final[tuple[tuple[_Layer, bool], ...]] = (("lstm", False), ("gru", False), ("lstm", True))
LAYER_TRIALS: Final = tuple(
    LayerTrial(kind, dtype, autocast) for dtype in NARROW_DTYPES for kind, autocast in _TRIED
)


def cannot_run(trial: LayerTrial) -> str:
    """A sentence where this processor cannot run the layer, else nothing."""
    return _sentence(trial) if _refusal(trial) else ""


def missing_kernel(text: str) -> str:
    """A sentence where an error's ``text`` is oneDNN's refusal of a kernel that is missing here.

    The text does not name the type: where the same words answer both, both are named.
    """
    if _NO_KERNEL not in text:
        return ""
    same = [one for one in LAYER_TRIALS if (said := _refusal(one)) and said in text]
    return _sentence(same[0], same[1:]) if same else ""


def reason_of(error: BaseException) -> str:
    """The error in one line; a sentence where it is a kernel that this processor lacks."""
    return missing_kernel(str(error)) or first_line(error)


@cache
def _refusal(trial: LayerTrial) -> str:
    """What the layer raises, in one line; nothing where it runs forward and backward."""
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
            _forward_and_backward(trial)
    except Exception as error:  # whatever a backend raises is the answer
        first = next(iter(str(error).strip().splitlines()), "")
        # oneDNN goes on with advice on how to debug it
        return first.partition(". ")[0] or type(error).__name__
    return ""


def _forward_and_backward(trial: LayerTrial) -> None:
    own = torch.float32 if trial.autocast else trial.dtype
    made = nn.LSTM if trial.kind == "lstm" else nn.GRU
    layer = made(_SIZE, _SIZE, device="cpu", dtype=own)
    inputs = torch.zeros(2, 1, _SIZE, device="cpu", dtype=own)
    with torch.autocast("cpu", dtype=trial.dtype, enabled=trial.autocast):
        with torch.no_grad():  # torch chooses other kernels there
            layer(inputs)
        out: Tensor = layer(inputs)[0]
    out.sum().backward()


def _sentence(trial: LayerTrial, alike: Sequence[LayerTrial] = ()) -> str:
    name, kind = trial.dtype_name, trial.kind.upper()
    others = dict.fromkeys(one.dtype_name for one in alike if one.dtype is not trial.dtype)
    besides = "".join(f", nor for {other}" for other in others)
    processor = torch.backends.cpu.get_cpu_capability()
    said = (
        f"{name} cannot run here: this processor ({processor}) has no {kind} kernel for it"
        f"{trial.region}{besides} ({_refusal(trial)})"
    )
    if trial.autocast and not _refusal(LayerTrial(trial.kind, trial.dtype)):
        said += f"; outside autocast a layer that is {name} itself runs"
    return said
