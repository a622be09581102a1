"""A recurrent policy in an autocast region: what some processors have no kernel for."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torchrl.envs import EnvBase
from torchrl.modules import MLP, LSTMModule, QValueModule


class Narrow(TensorDictModuleBase):
    """``inner`` under autocast; what it writes is float32 again."""

    def __init__(self, inner: LSTMModule, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.dtype = inner, dtype
        self.in_keys, self.out_keys = inner.in_keys, inner.out_keys

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        with torch.autocast("cpu", dtype=self.dtype):
            td = self.inner(td)  # this line raises
        for key in self.out_keys:
            td.set(key, td.get(key).float())
        return td


def make_lstm(dtype: str = "bfloat16") -> Narrow:
    """One module of a list, which is run when it is built."""
    sizes = {"input_size": 4, "hidden_size": 8}
    lstm = LSTMModule(**sizes, in_key="observation", out_key="embed")
    return Narrow(lstm, getattr(torch, dtype))


def make_policy(env: EnvBase) -> TensorDictSequential:
    """A whole policy, which is first run when something is collected."""
    head = MLP(in_features=8, out_features=2, num_cells=[])
    return TensorDictSequential(
        make_lstm(),
        TensorDictModule(head, in_keys=["embed"], out_keys=["action_value"]),
        QValueModule(spec=env.action_spec),
    )
