"""Every way to change a spec or a factory, as text; nothing is built here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rnncheck.patch.fix import BrokenFiles
from rnncheck.patch.registry import all_fixes, fixes_for
from rnncheck.patch.texts import Texts
from rnncheck.results.model import CheckResult, Finding, Outcome, Severity, Stage
from rnncheck.spec.load import spec_from_text

ENV = "env: {use: GymEnv, env_name: CartPole-v1}\n"
POLICY = 'policy: {factory: "mine:make_policy"}\n'


def ways(
    folder: Path, code: str, spec: str, python: str = "", key: str = "h"
) -> list[dict[str, str]]:
    """The changed files of each way to mend ``code``, by name."""
    (folder / "spec.yaml").write_text(spec)
    (folder / "mine.py").write_text(python)
    seen = (Finding(code, Stage.ENV, "", key=key),)
    cause = CheckResult(code, "", Severity.ERROR, Stage.ENV, Outcome.FAILED, findings=seen)
    case = BrokenFiles((folder / "spec.yaml").resolve(), Texts(), cause)
    found = [texts for fix in fixes_for(code) for texts in fix.ways(case)]
    assert (folder / "spec.yaml").read_text() == spec  # nothing is written
    for texts in found:
        for change in texts.changes(folder.resolve()):
            _assert_reads(change.path, change.after)
    return [{c.path: c.diff for c in texts.changes(folder.resolve())} for texts in found]


def _assert_reads(path: str, text: str) -> None:
    if path.endswith(".py"):
        ast.parse(text)
    else:
        spec_from_text(f"schema: 1\nname: patched\n{text}", "patched.yaml")


def plus(diff: str) -> list[str]:
    """The added lines."""
    lines = diff.splitlines()
    return [one[1:] for one in lines if one.startswith("+") and not one.startswith("+++")]


def minus(diff: str) -> list[str]:
    """The lines that are gone."""
    lines = diff.splitlines()
    return [one[1:] for one in lines if one.startswith("-") and not one.startswith("---")]


def test_every_fix_has_words_and_is_found_by_its_codes() -> None:
    assert len(all_fixes()) > 12
    assert len({fix.words for fix in all_fixes()}) == len(all_fixes())
    for fix in all_fixes():
        assert fix.words.startswith("with")
        assert all(fix in fixes_for(code) for code in fix.codes)
    assert fixes_for("BD301") == ()


IN_SPEC = [
    (
        "WR102",
        "env:  # mine\n  use: GymEnv\n  env_name: 'CartPole-v1'  # the pole\n"
        "  transforms:\n    - StepCounter  # a clock\n\n" + POLICY,
        ["    - InitTracker"],
        [],
    ),
    (
        "WR102",
        "env:\n  use: GymEnv\n  env_name: CartPole-v1\n\n" + POLICY,
        ["  transforms: [InitTracker]"],
        [],
    ),
    (
        "WR103",
        "env:\n  use: GymEnv\n  primers: manual  # mine\n  env_name: CartPole-v1\n" + POLICY,
        [],
        ["  primers: manual  # mine"],
    ),
    (
        "WR103",
        'env: {factory: "mine:make_env"}\n' + POLICY + "collect: {use: Collector}\n",
        ["collect: {use: Collector, auto_register_policy_transforms: true}"],
        ["collect: {use: Collector}"],
    ),
    (
        "WR105",
        ENV.replace("}", ", transforms: [{use: TensorDictPrimer, random: true, h: 1}]}") + POLICY,
        ["env: {use: GymEnv, env_name: CartPole-v1, transforms: [{use: TensorDictPrimer, h: 1}]}"],
        None,
    ),
    (
        "WR106",
        ENV + POLICY + "critic:\n  modules:\n"
        "    - {use: LSTMModule, in_key: x, out_key: y, hidden_size: 8}\n",
        [
            "    - {use: LSTMModule, hidden_size: 8,"
            " in_keys: [x, critic_recurrent_state_h, critic_recurrent_state_c],"
            " out_keys: [y, [next, critic_recurrent_state_h], [next, critic_recurrent_state_c]]}"
        ],
        None,
    ),
    (
        "RP501",
        ENV + POLICY + "replay:\n  use: ReplayBuffer\n  batch_size: 8\n",
        ["  use: TensorDictReplayBuffer"],
        ["  use: ReplayBuffer"],
    ),
    (
        "RP502",
        ENV + POLICY + "replay:\n  sampler: RandomSampler\n  batch_size: 24  # steps\n",
        [
            "  sampler: {use: SliceSampler, slice_len: 12, end_key: [next, done],"
            " strict_length: false}"
        ],
        ["  sampler: RandomSampler"],
    ),
    (
        "RP503",
        ENV + POLICY + "replay:\n  batch_size: 8\n"
        "  transforms: [{use: ExcludeTransform, excluded_keys: [h]}, StepCounter]\n",
        ["  transforms: [StepCounter]"],
        None,
    ),
    (
        "RP506",
        ENV + POLICY + "replay:\n  sampler: {use: SliceSampler, end_key: [next, truncated]}\n",
        ["  sampler: {use: SliceSampler, end_key: [next, done]}"],
        None,
    ),
    (
        "VL605",
        ENV + POLICY + "advantage: {use: GAE, gamma: 0.9}\n",
        ["advantage: {use: GAE, gamma: 0.9, shifted: true}"],
        None,
    ),
    (
        "VL602",
        ENV + POLICY + "advantage: {use: GAE, shifted: true, recurrent_mode: false}\n",
        ["advantage: {use: GAE, shifted: true}"],
        None,
    ),
]


@pytest.mark.parametrize(("code", "spec", "added", "gone"), IN_SPEC)
def test_a_spec_is_changed_where_it_must_be_and_nowhere_else(
    tmp_path: Path, code: str, spec: str, added: list[str], gone: list[str] | None
) -> None:
    (found,) = ways(tmp_path, code, spec)
    assert plus(found["spec.yaml"]) == added
    if gone is not None:
        assert minus(found["spec.yaml"]) == gone


ALL = "".join(
    f'{section}: {{factory: "mine:make_{section}"}}\n'
    for section in ("env", "policy", "collect", "replay", "batch", "advantage")
)
IN_PYTHON = [
    (
        "WR102",
        '"""Ä pole."""\nfrom torchrl.envs import Compose, StepCounter\n\n\ndef make_env():\n'
        "    return TransformedEnv(base(), Compose(StepCounter(9)))  # ß\n",
        [
            "from torchrl.envs import Compose, StepCounter, InitTracker",
            "    return TransformedEnv(base(), Compose(StepCounter(9), InitTracker()))  # ß",
        ],
    ),
    (
        "WR102",
        "import torch\n\n\ndef make_env():\n    env = base()\n    return env\n",
        [
            "from torchrl.envs import InitTracker",
            "    return env.append_transform(InitTracker())",
        ],
    ),
    (
        "RP501",
        "from torchrl.data import (\n    ReplayBuffer,\n)\n\n\ndef make_replay():\n"
        "    return ReplayBuffer(batch_size=8)\n",
        [
            "    ReplayBuffer, TensorDictReplayBuffer,",
            "    return TensorDictReplayBuffer(batch_size=8)",
        ],
    ),
    (
        "LS701",
        "def make_batch(data):\n    return data.reshape(-1, 8)\n",
        [
            "    batch = data.reshape(-1, 8)",
            '    batch["next", "is_init"] = batch["is_init"].clone()',
            "    return batch",
        ],
    ),
    (
        "LS701",
        "def make_batch(data):\n    rows = cut(data)\n    return rows\n",
        ['    rows["next", "is_init"] = rows["is_init"].clone()'],
    ),
    (
        "RP508",
        "from torchrl.modules import LSTMModule\n\n\ndef make_batch(data):\n"
        "    return warm(\n        data\n    )\n",
        [
            "from torchrl.modules import LSTMModule, set_recurrent_mode",
            "    with set_recurrent_mode(True):",
            "        return warm(",
            "            data",
            "        )",
        ],
    ),
    (
        "CL410",
        "def make_collect(env, policy):\n    with set_recurrent_mode(True):\n"
        "        return [env.rollout(9, policy)]\n",
        ["    with set_recurrent_mode(False):"],
    ),
    (
        "VL602",
        "def make_advantage(critic):\n    def targets(data):\n        critic(data)\n"
        "        return data\n    return targets\n",
        ["        critic(data.copy())"],
    ),
]


@pytest.mark.parametrize(("code", "python", "added"), IN_PYTHON)
def test_a_factory_is_changed_where_it_must_be_and_nowhere_else(
    tmp_path: Path, code: str, python: str, added: list[str]
) -> None:
    found = [way["mine.py"] for way in ways(tmp_path, code, ALL, python) if "mine.py" in way]
    assert [plus(diff) for diff in found] == [added]


def test_primers_of_other_states_stay(tmp_path: Path) -> None:
    primers = "[{use: TensorDictPrimer, h: 1}, {use: TensorDictPrimer, primers: {task: 2}}]"
    spec = ENV.replace("}", f", primers: manual, transforms: {primers}}}") + POLICY
    (found,) = ways(tmp_path, "WR104", spec, key="h")
    (added,) = plus(found["spec.yaml"])
    assert added.endswith("transforms: [{use: TensorDictPrimer, primers: {task: 2}}]}")


def test_a_batch_factory_is_added_where_there_is_none(tmp_path: Path) -> None:
    spec = ENV + POLICY + "replay:\n  batch_size: 8  # steps\n\nloss: DQNLoss\n"
    (found,) = ways(tmp_path, "LS701", spec)
    assert plus(found["spec.yaml"]) == ['batch: {factory: "next_flags:make_batch"}']
    assert not minus(found["spec.yaml"])
    assert found["next_flags.py"].startswith("--- /dev/null\n+++ b/next_flags.py\n")
    (tmp_path / "next_flags.py").write_text("")
    assert ways(tmp_path, "LS701", spec) == []


def test_a_network_that_keeps_next_states_is_put_in_the_place_of_the_sequence(
    tmp_path: Path,
) -> None:
    python = "def make_policy():\n    return TensorDictSequential(memory, head)\n"
    (found,) = ways(tmp_path, "VL604", ENV + POLICY + "loss: DQNLoss\n", python)
    assert "    return KeepsNext(memory, head)" in plus(found["mine.py"])
    assert minus(found["mine.py"]) == ["    return TensorDictSequential(memory, head)"]


UNCLEAR = [
    ("WR102", "def make_env(fast):\n    if fast:\n        return one()\n    return two()\n"),
    ("WR102", "def make_env():\n    return Compose(*these), Compose(*those)\n"),
    ("WR102", "make_env = made_elsewhere\n"),
    ("WR102", "def make_env(:\n"),
    ("LS701", "def make_batch(data): return data\n"),
    ("LS701", "def make_batch(data):\n    return sorted(data, key=lambda one: one)\n"),
    ("RP501", "def make_replay():\n    return [ReplayBuffer(), ReplayBuffer()]\n"),
    ("CL410", "def make_collect(recurrent):\n    return set_recurrent_mode(recurrent)\n"),
    ("VL602", "def make_advantage(critic):\n    return critic(data)\n"),
]


@pytest.mark.parametrize(("code", "python"), UNCLEAR)
def test_what_is_unclear_is_left_alone(tmp_path: Path, code: str, python: str) -> None:
    assert ways(tmp_path, code, ALL, python) == []


def test_a_factory_that_lies_elsewhere_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("def make_env():\n    return env\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "linked.py").symlink_to(tmp_path / "elsewhere.py")
    assert ways(tmp_path / "inner", "WR102", ALL.replace("mine:", "linked:")) == []
    assert ways(tmp_path / "inner", "WR102", ALL.replace("mine:", "absent:")) == []
