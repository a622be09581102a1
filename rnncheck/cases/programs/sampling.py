"""Programs about what a training batch has become on its way from the collected steps, each of
which has its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rnncheck.cases.model import CaseError
from rnncheck.cases.programs.modules import asks_network, functions, network_of
from rnncheck.cases.programs.parts import ProgramParts
from rnncheck.cases.programs.shape import Shape
from rnncheck.cases.programs.texts import key_code
from rnncheck.pipeline.keys import declared

_STEPS = """\
step = sample["step"].reshape(sample.shape)
marked = sample["is_init"].reshape(sample.shape)
follows = step[..., 1:] == step[..., :-1] + 1  # the step was collected behind the one before it
"""
_LOST = """\
asked = [{asked}]
known = sample.keys(include_nested=True, leaves_only=True)
print("the networks read:     ", asked)
print("the training batch has:", [key for key in asked if key in known])
sys.exit(any(key not in known for key in asked))
"""
_STORED = """\
flat = torch.cat([one.reshape(-1) for one in batches])
STATES = [{states}]
begins = torch.zeros(sample.shape, dtype=torch.bool)
begins[..., 0] = True
begins |= sample["is_init"].reshape(sample.shape)
number = sample["step"].reshape(sample.shape)[begins]
one = torch.cat([flat[key][number].flatten(1) for key in STATES], -1)
other = torch.cat([sample[key][begins].flatten(1) for key in STATES], -1)
"""


def _asks(parts: ProgramParts) -> None:
    asks_network(parts)
    parts.sample(numbered=True)


def _asks_every(parts: ProgramParts) -> None:
    asks_network(parts)
    parts.every_sample()


def _steps(*lines: str, said: tuple[str, str]) -> Shape:
    return Shape(_asks, lambda _: _STEPS + "\n".join([*lines, ""]), said)


def _lost(parts: ProgramParts) -> str:
    live = network_of(parts).live
    asked = [key_code(key) for key in declared(live, "in_keys") if key[0] != "next"]
    return _LOST.format(asked=", ".join(asked))


def _stored(parts: ProgramParts) -> str:
    states = network_of(parts).states
    if not states:
        raise CaseError("the network declares no state")
    return _STORED.format(states=", ".join(map(key_code, states)))


def _replayed(parts: ProgramParts) -> str:
    """What was recorded against what the network gives on the batch."""
    network = network_of(parts)
    defined = functions(parts, network, "*sample.shape", "numbers", "in_one_pass")
    return "\n".join(
        [
            f"KEYS = [{', '.join(map(key_code, network.written))}]\n\n",
            "\n\n\n".join(defined),
            "",
            "one = numbers(sample).detach()",
            "other = numbers(in_one_pass(sample)).detach()",
            "",
        ]
    )


def _asks_both(parts: ProgramParts) -> None:
    _asks(parts)
    parts.writer.uses("torchrl.data", "TensorDictReplayBuffer")


def _unmarked() -> Shape:
    return _steps(
        "other = marked[..., 1:][~follows].float()",
        "one = torch.ones_like(other)",
        said=(f"{_MARK}, expected", "found"),
    )


def _crossed() -> Shape:
    return _steps(
        'over = sample["next", "done"].reshape(sample.shape)[..., :-1]',
        "other = marked[..., 1:][over | ~follows].float()",
        "one = torch.ones_like(other)",
        said=("start flag behind an end or a gap, expected", "found"),
    )


_MARK = "start flag where a slice begins"

SHAPES: dict[str, Callable[[], list[Shape]]] = {
    "RP501": lambda: [
        replace(
            _unmarked(),
            mended="the buffer is a TensorDictReplayBuffer",
            rewritten=(
                "replay = ReplayBuffer(",
                "kind = TensorDictReplayBuffer if \"--mended\" in sys.argv else ReplayBuffer\n"
                "replay = kind(",
            ),
            asks=_asks_both,
        ),
        _unmarked(),
    ],
    "RP502": lambda: [
        _steps(
            "one = (step[..., :-1] + 1)[~follows & ~marked[..., 1:]].float()",
            "other = step[..., 1:][~follows & ~marked[..., 1:]].float()",
            said=("number of the step that follows, expected", "found"),
        ),
        _steps(
            "one = (step[..., :-1] + 1)[~follows].float()",
            "other = step[..., 1:][~follows].float()",
            said=("number of the step that follows, expected", "found"),
        ),
    ],
    "RP503": lambda: [Shape(_asks, _lost)],
    "RP504": lambda: [
        Shape(
            _asks, _stored,
            ("state that was collected with a step", "state of that step in the training batch"),
        )
    ],
    # In a small case the first batch may hold no end: then all of them are looked at.
    "RP506": lambda: [_crossed(), replace(_crossed(), asks=_asks_every)],
    "RP507": lambda: [
        Shape(_asks, _replayed, ("recorded while acting", "in one pass over the training batch"))
    ],
}  # fmt: skip
