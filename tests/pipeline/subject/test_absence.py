"""Whether a module takes a batch without a state for a sequence."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.modules.tensordict_module.rnn import recurrent_mode

from rnncheck.pipeline.subject.absence import switched_by_absence
from rnncheck.pipeline.subject.subject import Subject, carriers
from rnncheck.results.model import Stage


class Cell(TensorDictModuleBase):
    """``kind`` says what tells a sequence from steps."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.in_keys, self.out_keys = ["x", "h", "is_init"], ["y", ("next", "h")]
        self.kind, self.w = kind, nn.Linear(2, 3)

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        x, h = td["x"], td.get("h", None)
        if self.kind == "never" or not self.is_sequence(td):
            td["y"] = td["next", "h"] = torch.tanh(self.w(x) + (0 if h is None else h))
            return td
        state, states = torch.zeros(len(x), 3), []
        for t in range(x.shape[1]):
            state = torch.tanh(self.w(x[:, t]) + state)
            states.append(state)
        td["y"] = torch.stack(states, 1)
        return td

    def is_sequence(self, td: TensorDictBase) -> bool:
        if self.kind == "mode":
            return bool(recurrent_mode())
        return td.ndim > 1 if self.kind == "rank" else td.get("h", None) is None


@pytest.mark.parametrize(
    ("kind", "expected"), [("absence", True), ("rank", False), ("mode", False), ("never", False)]
)
def test_it_is_seen(kind: str, expected: bool) -> None:
    module = Cell(kind)
    first = TensorDict({"x": torch.randn(4, 2), "is_init": torch.ones(4, 1).bool()}, [4])
    subject = Subject(
        stage=Stage.POLICY,
        module=module,
        carry=carriers(module)[0].keys,
        flags={("is_init",): torch.Size([1])},
        fresh={("h",): torch.zeros(4, 3)},
        rank=1,
        batch_shape=(4,),
    )
    assert switched_by_absence(subject, first) is expected
