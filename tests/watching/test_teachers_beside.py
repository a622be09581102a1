"""``rnncheck run``: a policy in a row with a teacher, whose state training does not keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

TAUGHT = """
import torch
from tensordict.nn import TensorDictModule as Mod
from tensordict.nn import TensorDictModuleBase
from tensordict.nn import TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TensorDictPrimer, TransformedEnv
from torchrl.modules import GRUModule, set_recurrent_mode


class Teacher(TensorDictModuleBase):
    in_keys = ["observation", "lean", "is_init"]
    out_keys = ["label", ("next", "lean")]

    def forward(self, td):
        lean = torch.where(td["is_init"], 0.0, 0.5 * td["lean"]) + td["observation"][..., 2:3]
        td["label"], td["next", "lean"] = (lean[..., 0] > 0).long(), lean
        return td


def main():
    torch.manual_seed(0)
    gru = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="embed")
    student = Seq(gru, Mod(nn.Linear(8, 2), ["embed"], ["logits"]))
    choose = Mod(lambda label: nn.functional.one_hot(label, 2), ["label"], ["action"])
    env = TransformedEnv(SerialEnv(3, lambda: GymEnv("CartPole-v1")), InitTracker())
    env.append_transform(gru.make_tensordict_primer())
    notes = {"lean": Unbounded((1,))}
    env.append_transform(TensorDictPrimer(notes, default_value=0.0, expand_specs=True))
    optim = torch.optim.Adam(student.parameters(), 1e-3)
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(60), batch_size=4)
    acts = Seq(Teacher(), student, choose)
    for data in Collector(env, acts, frames_per_batch=48, total_frames=960):
        rb.extend(data.select("observation", "recurrent_state", "is_init", "label"))
        batch = rb.sample()
        with set_recurrent_mode(True):
            logits = student(batch)["logits"]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["label"].flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()


main()
"""
KEPT = 'data.select("observation", "recurrent_state", "is_init", "label")'
HALVED = (KEPT, KEPT + '.update({"observation": data["observation"] * 0.5})')


def test_what_training_runs_is_replayed(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "RP503,RP507", TAUGHT) == (ExitCode.VERIFIED, [])


def test_what_nobody_collected_is_not_taken_for_judged(rnncheck: Any, tmp_path: Path) -> None:
    found = judged(rnncheck, tmp_path, "RP507", TAUGHT, HALVED)
    assert found == (ExitCode.NOT_SHOWN, [])
