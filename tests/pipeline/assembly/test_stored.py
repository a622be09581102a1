"""What a collector wrote into a buffer itself, read back."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ListStorage, TensorDictReplayBuffer

from rnncheck.pipeline.assembly.stored import contents
from rnncheck.pipeline.keys import STEP_KEY


def steps(trajectory: int, *values: int, done: bool = False) -> TensorDict:
    """Neighbouring steps of one trajectory; ``done`` ends it at the last of them."""
    count = len(values)
    ends = torch.zeros(count, 1, dtype=torch.bool)
    ends[-1] = done
    return TensorDict(
        {
            "x": torch.tensor(values),
            "collector": {"traj_ids": torch.full((count,), trajectory)},
            "next": {"done": ends},
        },
        [count],
    )


def buffer(size: int, *written: TensorDict, ndim: int = 1) -> TensorDictReplayBuffer:
    made = TensorDictReplayBuffer(
        storage=LazyTensorStorage(size, ndim=ndim), batch_size=4, dim_extend=ndim - 1
    )
    for data in written:
        made.extend(data)
    return made


def values(made: TensorDictReplayBuffer, **settings: object) -> list[list[int]]:
    found = contents(made, **settings)  # type: ignore[arg-type]
    return [piece["x"].tolist() for piece in found.batches]


def test_stretches_of_several_workers_are_parted() -> None:
    made = buffer(20, steps(0, 1, 2), steps(1, 10, 11, done=True), steps(0, 3, 4))
    assert values(made) == [[1, 2], [10, 11, 3, 4]]
    assert values(made, by_turns=True) == [[1, 2], [10, 11], [3, 4]]


def test_an_end_parts_nothing_where_one_process_writes() -> None:
    made = buffer(20, steps(0, 1, 2, done=True), steps(1, 3, 4))
    assert values(made) == [[1, 2, 3, 4]]


def test_a_ring_is_read_from_its_oldest_step() -> None:
    made = buffer(4, steps(0, 1, 2, 3), steps(0, 4, 5, 6))
    assert values(made) == [[3, 4, 5, 6]]


def test_steps_are_numbered_in_the_order_in_which_they_are_read() -> None:
    made = buffer(4, steps(0, 1, 2, 3), steps(0, 4, 5, 6))
    contents(made)
    held = made.storage[:]
    numbers = dict(zip(held["x"].tolist(), held[STEP_KEY].flatten().tolist(), strict=True))
    assert numbers == {3: 1, 4: 2, 5: 3, 6: 4}


def test_random_steps_are_parted_and_counted_until_the_ring_has_replaced_them() -> None:
    written = [steps(0, 1, 2, 3), steps(0, 4, 5, 6)]
    held = contents(buffer(20, *written), 3)
    assert ([piece["x"].tolist() for piece in held.batches], held.random) == (
        [[1, 2, 3], [4, 5, 6]],
        1,
    )
    assert values(buffer(4, *written), random_frames=3) == [[3], [4, 5, 6]]
    assert contents(buffer(3, *written), 3).random == 0


def test_rows_and_steps_of_all_envs_are_read_with_time_last() -> None:
    rows = torch.stack([steps(0, 1, 2, 3), steps(1, 10, 11, 12)])
    assert values(buffer(20, rows, ndim=2)) == [[[1, 2, 3], [10, 11, 12]]]
    by_step = buffer(20, rows.transpose(0, 1).contiguous())
    assert values(by_step, by_step=True) == [[[1, 2, 3], [10, 11, 12]]]
    assert by_step.storage[:][STEP_KEY].flatten(1).tolist() == [[1, 4], [2, 5], [3, 6]]


def test_a_list_of_steps_is_read_too() -> None:
    made = TensorDictReplayBuffer(storage=ListStorage(20), batch_size=4)
    made.extend(steps(0, 1, 2, 3))
    assert values(made) == [[1, 2, 3]]
    assert made.storage[1][STEP_KEY].tolist() == [2]
