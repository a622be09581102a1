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
    folder: Path, code: str, spec: str, python: str = "", key: str = "h", fix: str = ""
) -> list[dict[str, str]]:
    """The changed files of each way to mend ``code``, by name."""
    (folder / "spec.yaml").write_text(spec)
    (folder / "mine.py").write_text(python)
    seen = (Finding(code, Stage.ENV, "", key=key, fix=fix),)
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
    assert len(all_fixes()) > 22
    assert len({fix.words for fix in all_fixes()}) == len(all_fixes())
    for fix in all_fixes():
        assert fix.words.startswith("with")
        assert all(fix in fixes_for(code) for code in fix.codes)
    assert fixes_for("BD301") == ()


MODED = "def make_collect(whole):\n    with set_recurrent_mode(whole):\n        return []\n"
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
        "WR109",
        ENV.replace("}", ", transforms: [StepCounter, {factory: 'mine:Flags', a: 1}]}") + POLICY,
        ["env: {use: GymEnv, env_name: CartPole-v1, transforms: [StepCounter, InitTracker]}"],
        None,
    ),
    (
        "RP507",
        ENV.replace("}", ", transforms: [{use: ObservationNorm, loc: 1}]}")
        + POLICY
        + "replay:\n  transforms: [{use: ObservationNorm, scale: 2}, RewardSum]\n  batch_size: 8\n",
        ["  transforms: [RewardSum]"],
        None,
    ),
    (
        "VL603",
        ENV + POLICY + 'loss: {factory: "mine:make_loss", cut: [next, done], gamma: 0.9}\n',
        ['loss: {factory: "mine:make_loss", cut: [next, terminated], gamma: 0.9}'],
        None,
    ),
    (
        "LS706",
        ENV + POLICY + 'critic: {factory: "mine:make_critic"}\nloss: {use: ClipPPOLoss}\n',
        ["advantage: {use: GAE, gamma: 0.99, lmbda: 0.95, shifted: true}"],
        [],
    ),
    (
        "CL410",
        ENV + POLICY + 'collect: {factory: "mine:make_collect", whole: true}\n',
        ['collect: {factory: "mine:make_collect", whole: false}'],
        None,
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
    (found,) = ways(tmp_path, code, spec, MODED)
    assert plus(found["spec.yaml"]) == added
    if gone is not None:
        assert minus(found["spec.yaml"]) == gone


def test_slices_are_parted_by_their_ends_or_by_number(tmp_path: Path) -> None:
    spec = ENV + POLICY + "replay:\n  sampler: RandomSampler\n  batch_size: 24  # steps\n"
    for found, parted in zip(
        ways(tmp_path, "RP502", spec),
        ("end_key: [next, done]", "traj_key: [collector, traj_ids]"),
        strict=True,
    ):
        sampler = f"{{use: SliceSampler, slice_len: 12, {parted}, strict_length: false}}"
        assert plus(found["spec.yaml"]) == [f"  sampler: {sampler}"]
        assert minus(found["spec.yaml"]) == ["  sampler: RandomSampler"]


def test_an_env_reads_an_index_where_the_finding_asks_for_it(tmp_path: Path) -> None:
    asked = "make the env with categorical_action_encoding=True"
    (found,) = ways(tmp_path, "WR111", ENV + POLICY, fix=asked)
    (added,) = plus(found["spec.yaml"])
    assert added.endswith("env_name: CartPole-v1, categorical_action_encoding: true}")
    assert ways(tmp_path, "WR111", ENV + POLICY, fix="let the policy give one-hot actions") == []


ALL = "".join(
    f'{section}: {{factory: "mine:make_{section}"}}\n'
    for section in ("env", "policy", "collect", "replay", "batch", "advantage", "loss")
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
        "RP503",
        "def make_batch(data):\n    return data.select('observation', 'action')\n",
        ["    return data"],
    ),
    (
        "RP506",
        "def make_batch(data):\n    return begun(data, data['next', 'truncated'])\n",
        ["    return begun(data, data['next', \"done\"])"],
    ),
    (
        "VL603",
        "def make_advantage(critic):\n    return lambda data: over(data['next', 'truncated'])\n",
        ["    return lambda data: over(data['next', \"terminated\"])"],
    ),
    (
        "VL603",
        "def make_loss(net, gamma=0.9):\n    def loss(data):\n"
        "        target = data['next', 'reward'] + gamma * net(data)\n"
        "        return target.mean()\n    return loss\n",
        [
            "        target = data['next', 'reward']"
            ' + gamma * net(data) * (~data["next", "terminated"]).float()'
        ],
    ),
    (
        "LS703",
        "def make_loss(net):\n    def loss(data):\n        return net(data)\n    return loss\n",
        ["from torchrl.modules import set_recurrent_mode", "    @set_recurrent_mode(True)"],
    ),
    (
        "GR801",
        "def make_loss(net):\n    return Loss(net)\n\n\nclass Loss:\n"
        "    def handed_on(self, h):\n        return h.detach() if self.cut else h\n",
        ["        return h"],
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


def test_a_loss_copies_its_batch_or_clones_it(tmp_path: Path) -> None:
    python = (
        "def make_loss(net):\n    return Loss(net)\n\n\nclass Loss:\n"
        '    def forward(self, data):\n        """It."""\n        return self.net(data)\n'
    )
    found = [plus(way["mine.py"]) for way in ways(tmp_path, "LS705", ALL, python)]
    assert found == [["        data = data.clone(False)"], ["        data = data.clone()"]]


MEAN = "def make_loss(net):\n    return lambda data: reduced(net(data), data)\n\n\n"
REDUCED = "def reduced(error, data):\n    return (error - error.mean()) / error.std()\n"


@pytest.mark.parametrize(
    ("key", "text", "mask"),
    [
        ("filled", 'batch["filled"]', '[data["filled"]]'),
        ("collector.pad", '~batch["collector", "pad"]', '[~data["collector", "pad"]]'),
    ],
)
def test_means_are_taken_over_what_the_mask_calls_data(
    tmp_path: Path, key: str, text: str, mask: str
) -> None:
    asked = f"weigh per-step losses with {text}, or sample ragged slices"
    (found,) = ways(tmp_path, "RP505", ALL, MEAN + REDUCED, key=key, fix=asked)
    assert plus(found["mine.py"]) == [
        f"    return (error - error{mask}.mean()) / error{mask}.std()"
    ]
    assert ways(tmp_path, "RP505", ALL, MEAN + REDUCED, key="", fix="write a mask") == []


def test_a_mode_that_a_loss_sets_is_set_right(tmp_path: Path) -> None:
    python = (
        "def make_loss(net):\n    def loss(data):\n"
        "        with set_recurrent_mode(net.flag):\n            return net(data)\n"
        "    return loss\n"
    )
    first, _ = ways(tmp_path, "LS703", ALL, python)
    assert plus(first["mine.py"]) == ["        with set_recurrent_mode(True):"]


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
    ("VL602", "def make_advantage(critic):\n    return critic(data)\n"),
    ("RP503", "def make_batch(data):\n    return data\n"),
    ("RP506", "def make_batch(data):\n    return cut(data['truncated'], data['terminated'])\n"),
    ("VL603", "def make_loss(net):\n    return data['next', 'reward'] + gamma * going * v\n"),
    ("VL603", "def make_loss(net):\n    return reward + gamma * value\n"),
    ("LS703", "def make_loss(net):\n    return elsewhere(net)\n"),
    ("GR801", "def make_loss(net):\n    return net\n"),
    ("CL410", "def make_collect(a):\n    with set_recurrent_mode(a):\n        return []\n"),
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
