"""``rnncheck run``: a plain loop that keeps its steps in a tensordict, by names of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, run

_NAMES = ("obs", "actions", "logprobs", "rewards", "dones", "values")


def kept_in_a_tensordict() -> str:
    """The script's tensors as entries of one tensordict, whose minibatches are tensordicts too."""
    text = (SCRIPTS / "plain_vector.py").read_text()
    for name in _NAMES:
        text = re.sub(rf"(?<![\w.]){name}\[", f'kept["{name}"][', text)
        text = re.sub(rf"(?<![\w.]){name}\.reshape", f'kept["{name}"].reshape', text)
        text = re.sub(rf"^    {name} = (torch.*)$", rf'    kept["{name}"] = \1', text, flags=re.M)
        text = text.replace(f"zeros_like({name})", f'zeros_like(kept["{name}"])')
        text = text.replace(f"advantages + {name}", f'advantages + kept["{name}"]')
    text = text.replace("import torch\n", "import torch\nfrom tensordict import TensorDict\n", 1)
    first = '    kept["obs"] = '
    text = text.replace(first, f"    kept = TensorDict(batch_size=(STEPS, ENVS))\n{first}")
    columns = "        columns = np.arange(ENVS)\n"
    text = text.replace(columns, f"        b = kept.reshape(-1)\n{columns}")
    return text.replace("b_obs[rows]", 'b[rows]["obs"]').replace(
        "b_dones[rows]", 'b["dones"][rows]'
    )


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        pytest.param(("", ""), [], id="healthy", marks=pytest.mark.slow),
        pytest.param(('b["dones"][rows]', '0 * b["dones"][rows]'), ["RP503"], id="no marks"),
    ],
)
def test_its_steps_are_found(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], codes: list[str]
) -> None:
    text = kept_in_a_tensordict()
    assert change[0] in text
    (tmp_path / "train.py").write_text(text.replace(*change) if codes else text)
    code, told, _ = run(rnncheck, "--select", "RP,EQ,GR8,LS7", tmp_path / "train.py")
    assert (code, failed(told)[:1]) == (ExitCode.FAILED if codes else ExitCode.VERIFIED, codes)
