"""Every sampler, storage, writer and buffer of TorchRL by its name: judged, or refused with the way
out."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.errors import UserError
from rnncheck.pipeline.assembly import components as c
from rnncheck.results.collect import RunCollector
from rnncheck.results.model import Outcome, Run
from rnncheck.spec.load import load_spec
from tests.extent import rows

SPEC = """\
schema: 1
name: buffers
env:
  use: GymEnv
  env_name: CartPole-v1
  categorical_action_encoding: true
  workers: {workers}
  transforms: [InitTracker, {{use: StepCounter, max_steps: 12}}]
policy:
  modules:
    - {{use: LSTMModule, in_key: observation, out_key: embed, hidden_size: 4}}
    - {{use: MLP, in_keys: [embed], out_keys: [action_value], num_cells: [], out_features: auto}}
    - {{use: QValueModule}}
collect:
  use: Collector
  frames_per_batch: {frames}
  batches: {batches}
  track_policy_version: {tracked}
replay:
  batch_size: 16
"""
FLAT = "{use: LazyTensorStorage, max_size: 200}"
ROWS = "{use: LazyTensorStorage, max_size: 200, ndim: 2}"
RING = "{use: LazyTensorStorage, max_size: 64}"
SLICES = "{use: SliceSampler, slice_len: 4, strict_length: false}"
WHOLE = "flatten: none, batch_size: 4, sampler: RandomSampler"
COMPILED = "compiled extension"


def parts(text: str) -> str:
    """``a: 1, b: {..}`` as lines of the replay section; braces keep their commas."""
    lines, depth, start = list[str](), 0, 0
    for index, letter in enumerate(text + ","):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            lines.append(f"  {text[start:index].strip()}")
            start = index + 1
    return "\n".join(lines)


def run(
    folder: Path,
    replay: str,
    workers: int = 1,
    batches: int = 2,
    frames: int = 48,
    tracked: str = "false",
) -> Run:
    path = folder / "rnncheck.yaml"
    text = SPEC.format(workers=workers, batches=batches, frames=frames, tracked=tracked)
    if "batch_size" in replay:
        text = text.replace("  batch_size: 16\n", "")
    path.write_text(text + parts(replay) + "\n")
    collector = RunCollector()
    spec = load_spec(path)
    for event in verify_events(spec, select_rules(spec, ["RP"])):
        collector(event)
    return collector.finish(interrupted=False, seconds=0.0)


def failed(found: Run) -> set[str]:
    return {check.code for check in found.checks if check.outcome is Outcome.FAILED}


def refused(found: Run) -> str:
    (stage,) = [one for one in found.stages if one.outcome is Outcome.ERROR]
    return stage.detail


JUDGED = {
    "RandomSampler": (f"storage: {FLAT}, sampler: RandomSampler", 1, {"RP502"}),
    "RandomSampler, rows": (f"storage: {ROWS}, sampler: RandomSampler", 2, {"RP502"}),
    "SamplerWithoutReplacement": (
        f"storage: {FLAT}, sampler: SamplerWithoutReplacement",
        1,
        {"RP502"},
    ),
    "ConsumingSampler": (f"storage: {FLAT}, sampler: ConsumingSampler", 1, {"RP502"}),
    "SliceSampler": (f"storage: {FLAT}, sampler: {SLICES}", 1, set()),
    "SliceSampler, rows": (f"storage: {ROWS}, sampler: {SLICES}", 2, set()),
    "SliceSampler, fragmented": (
        f"storage: {FLAT}, sampler: "
        "{use: SliceSampler, slice_len: 4, fragmented: true, traj_key: [collector, traj_ids]}",
        1,
        set(),
    ),
    "SliceSampler, ring": (f"storage: {RING}, sampler: {SLICES}", 1, set()),
    "SliceSamplerWithoutReplacement": (
        f"storage: {ROWS}, sampler: "
        "{use: SliceSamplerWithoutReplacement, slice_len: 4, strict_length: false}",
        2,
        set(),
    ),
    "StreamingSliceSampler": (
        f"storage: {FLAT}, sampler: {{use: StreamingSliceSampler, slice_len: 4}}",
        1,
        set(),
    ),
    "prefetch": (f"storage: {FLAT}, sampler: {SLICES}, prefetch: 2", 1, set()),
    "plain buffer": (f"use: ReplayBuffer, storage: {FLAT}, sampler: {SLICES}", 1, {"RP501"}),
    "memmap": (f"storage: {{use: LazyMemmapStorage, max_size: 200}}, sampler: {SLICES}", 1, set()),
    "memmap, rows": (
        f"storage: {{use: LazyMemmapStorage, max_size: 200, ndim: 2}}, sampler: {SLICES}",
        2,
        set(),
    ),
    "list": (f"storage: {{use: ListStorage, max_size: 20}}, {WHOLE}", 4, set()),
    "lazy stacks": (f"storage: {{use: LazyStackStorage, max_size: 20}}, {WHOLE}", 4, set()),
    "RoundRobinWriter": (
        f"storage: {FLAT}, sampler: {SLICES}, writer: TensorDictRoundRobinWriter",
        1,
        set(),
    ),
    "TensorDictMaxValueWriter": (
        f"storage: {FLAT}, sampler: {SLICES}, "
        "writer: {use: TensorDictMaxValueWriter, rank_key: [next, reward]}",
        1,
        set(),
    ),
}
REFUSED = {
    "list": (
        f"storage: {{use: ListStorage, max_size: 200}}, sampler: {SLICES}",
        1,
        "LazyTensorStorage",
    ),
    "CompressedListStorage": (
        f"storage: {{use: CompressedListStorage, max_size: 200}}, sampler: {SLICES}",
        1,
        "LazyTensorStorage",
    ),
    "read-only": (
        f"storage: {FLAT}, sampler: {SLICES}, writer: ImmutableDatasetWriter",
        1,
        "leave `writer` out",
    ),
    "StalenessAwareSampler": (
        f"storage: {FLAT}, sampler: StalenessAwareSampler",
        1,
        "PolicyVersion",
    ),
    "slices of no length": (
        f"storage: {FLAT}, sampler: {{use: SliceSampler, slice_len: 5}}",
        1,
        "divisible by the slice length",
    ),
    "burn-in of flat slices": (
        f"storage: {FLAT}, sampler: {SLICES}, transforms: [{{use: BurnInTransform, burn_in: 2}}]",
        1,
        "needs samples [rows, steps]",
    ),
    "burn-in of everything": (
        f"storage: {FLAT}, {WHOLE}, transforms: [{{use: BurnInTransform, burn_in: 40}}]",
        4,
        "leaves nothing of the samples",
    ),
}
PRIORITIZED = {
    "PrioritizedSampler": "sampler: {use: PrioritizedSampler, alpha: 0.7, beta: 0.5}",
    "PrioritizedSliceSampler": (
        "sampler: {use: PrioritizedSliceSampler, alpha: 0.7, beta: 0.5, slice_len: 4}"
    ),
    "buffer": "use: TensorDictPrioritizedReplayBuffer, alpha: 0.7, beta: 0.5",
}
WRONG = {
    "sampler: SamplerEnsemble": "in a factory",
    "writer: WriterEnsemble": "in a factory",
    "use: ReplayBufferEnsemble": "in a factory",
    "storage: {use: ListStorage, max_size: 9, ndim: 2}": "takes no argument 'ndim'",
}
ELSEWHERE = {  # not for steps of episodes, made of others, or in need of a service
    "PromptGroupSampler", "SamplerEnsemble", "StorageEnsemble", "WriterEnsemble", "StoreStorage",
}  # fmt: skip
BASES = {"Sampler", "Storage", "TensorStorage", "Writer"}


# Slices like those of other rows.
LATER = {
    "SliceSampler, fragmented",
    "SliceSampler, ring",
    "SliceSampler, rows",
    "SliceSamplerWithoutReplacement",
}


@pytest.mark.first(6)
@pytest.mark.parametrize("name", rows(JUDGED, LATER))
def test_what_can_be_drawn_is_judged(tmp_path: Path, name: str) -> None:
    replay, workers, codes = JUDGED[name]
    found = run(tmp_path, replay, workers)
    assert failed(found) == codes
    assert not [check for check in found.checks if check.outcome is Outcome.ERROR]
    assert not [stage for stage in found.stages if stage.outcome is Outcome.ERROR]


@pytest.mark.parametrize("name", REFUSED)
def test_what_torchrl_refuses_is_a_sentence(tmp_path: Path, name: str) -> None:
    replay, workers, sentence = REFUSED[name]
    assert sentence in refused(run(tmp_path, replay, workers))


@pytest.mark.parametrize("name", PRIORITIZED)
def test_priorities_are_judged_or_the_extension_is_named(tmp_path: Path, name: str) -> None:
    found = run(tmp_path, f"storage: {FLAT}, {PRIORITIZED[name]}")
    errors = [stage.detail for stage in found.stages if stage.outcome is Outcome.ERROR]
    assert all(COMPILED in error for error in errors)
    assert errors or failed(found) <= {"RP502"}


def test_staleness_is_judged_where_the_collector_tracks_versions(tmp_path: Path) -> None:
    found = run(tmp_path, f"storage: {FLAT}, sampler: StalenessAwareSampler", tracked="true")
    assert failed(found) == {"RP502"}


@pytest.mark.parametrize("replay", WRONG)
def test_what_a_spec_cannot_name_is_bad_input(tmp_path: Path, replay: str) -> None:
    with pytest.raises(UserError) as raised:
        run(tmp_path, replay if "storage" in replay else f"storage: {FLAT}, {replay}")
    assert WRONG[replay] in str(raised.value)


def test_no_name_of_torchrl_is_left_out() -> None:
    texts = [text for text, *_ in (*JUDGED.values(), *REFUSED.values())]
    said = " ".join((*texts, *PRIORITIZED.values(), *WRONG, *JUDGED))
    for kind in (c.SAMPLER, c.STORAGE, c.WRITER):
        module = importlib.import_module(kind.namespaces[-1])
        names = {name for name in c.class_names(kind) if hasattr(module, name)}
        assert not {name for name in names - BASES - ELSEWHERE if name not in said}


def test_more_is_collected_where_the_sampler_can_draw_nothing_yet(tmp_path: Path) -> None:
    longest = "sampler: {use: SliceSampler, slice_len: 8}, batch_size: 16"
    found = run(tmp_path, f"storage: {FLAT}, {longest}", batches=1, frames=6)
    assert not [stage for stage in found.stages if stage.outcome is Outcome.ERROR]
    assert not failed(found)
    (notice,) = found.notices
    assert "more batches were collected: the sampler could draw nothing from the first 1" in notice


def test_slices_longer_than_any_episode_are_given_up(tmp_path: Path) -> None:
    longest = "sampler: {use: SliceSampler, slice_len: 20}, batch_size: 40"
    said = refused(run(tmp_path, f"storage: {FLAT}, {longest}", batches=1))
    assert "of 8 batches" in said and "a slice 20" in said and "strict_length: false" in said
