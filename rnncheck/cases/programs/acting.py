"""Programs about what is collected: the recorded steps against each other, and against the network
that took them."""

from __future__ import annotations

from collections.abc import Callable

from rnncheck.cases.model import CaseError
from rnncheck.cases.programs.modules import asks_network, functions, network_of
from rnncheck.cases.programs.parts import ProgramParts
from rnncheck.cases.programs.shape import Shape
from rnncheck.cases.programs.texts import inner_code, key_code

_IN_ROWS = """\
if batch.ndim == 1:
    batch = batch.unsqueeze(0)
batch = batch.flatten(0, -2)  # [rows, steps]"""
_ROWS = f"""\
{_IN_ROWS}
begins = batch["is_init"].reshape(batch.shape).clone()
begins[:, 0] = True
"""
_MODES = '''\
def noted(*_):
    """Before each step of the policy."""
    if recurrent_mode():
        print("recurrent mode while acting, expected: False")
        print("recurrent mode while acting, found:    True")
        sys.exit(1)
policy.register_forward_pre_hook(noted)
'''


def _asks(parts: ProgramParts) -> None:
    asks_network(parts)
    parts.batches()


def _setup(parts: ProgramParts, lines: list[str], number: int = 0) -> list[str]:
    """``batch``, and the names that the ``lines`` use."""
    network, used = network_of(parts), "\n".join(lines)
    keys = {"STATES": network.states, "KEYS": network.written}
    named = {name: found for name, found in keys.items() if name in used}
    if not all(named.values()):
        raise CaseError("what the network carries or writes is not declared")
    said = [f"{name} = [{', '.join(map(key_code, found))}]" for name, found in named.items()]
    return [f"batch = batches[{number}].detach().clone()", _ROWS, *said]


def recorded(*lines: str, said: tuple[str, str]) -> Shape:
    """``one`` and ``other`` of the recorded batch."""

    def body(parts: ProgramParts) -> str:
        return "\n".join([*_setup(parts, list(lines)), *lines, ""])

    return Shape(_asks, body, said)


def _replayed(run: str, said: tuple[str, str]) -> Shape:
    """What was recorded, and what the network gives on it."""

    def body(parts: ProgramParts) -> str:
        defined = functions(parts, network_of(parts), "*batch.shape", "numbers", run)
        lines = [
            "one = numbers(batch).detach()",
            f"other = numbers({run}(batch)).detach()",
        ]
        return "\n".join([*_setup(parts, defined), *defined, *lines, ""])

    return Shape(_asks, body, said)


def _marked(number: int) -> Shape:
    """Start flags against where an episode ends, or what was observed next does not follow."""

    def body(parts: ProgramParts) -> str:
        key = next(iter(network_of(parts).observed), None)
        if key is None:
            raise CaseError("what the network observes is not recorded")
        lines = [
            f"expected = batch[{inner_code(('next', *key))}][:, :-1]",
            f"follows = (batch[{inner_code(key)}][:, 1:] == expected).flatten(2).all(-1)",
            'over = batch["next", "done"].reshape(batch.shape)[:, :-1]',
            "one = (over | ~follows).float()",
            'other = batch["is_init"].reshape(batch.shape)[:, 1:].float()',
        ]
        return "\n".join([*_setup(parts, lines, number), *lines, ""])

    said = ("whether another trajectory begins behind a step", "start flag there")
    return Shape(_asks, body, said)


def _between(*lines: str, said: tuple[str, str]) -> Shape:
    """The last step of a batch and the first of the next one."""

    def body(parts: ProgramParts) -> str:
        first = _setup(parts, list(lines))
        again = _setup(parts, [], 1)
        return "\n".join([*first, "earlier = batch", *again, *lines, ""])

    return Shape(_asks, body, said)


def _taken_over() -> Shape:
    """The state that the policy takes over from random steps, and the one that it reaches on
    them."""

    def body(parts: ProgramParts) -> str:
        number = parts.pipeline.random_batches
        if not 0 < number < len(parts.pipeline.batches):
            raise CaseError("no random batch stands before one of the policy's")
        defined = functions(parts, network_of(parts), "*batch.shape", "step_by_step")
        lines = [
            "left = step_by_step(batch)",
            'going = ~batch["next", "done"].reshape(batch.shape)[:, -1]',
            'one = torch.cat([left["next", key][:, -1].flatten(1) for key in STATES], -1)[going]',
            f"batch = batches[{number}].detach().clone()",
            _IN_ROWS,
            "other = torch.cat([batch[key][:, 0].flatten(1) for key in STATES], -1)[going]",
            "one, other = one.detach(), other.detach()",
        ]
        first = _setup(parts, [*defined, *lines], number - 1)
        return "\n".join(
            [*first, *defined, *lines, "one, other = one.detach(), other.detach()", ""]
        )

    said = ("state that the random steps lead to", "state that the policy begins with")
    return Shape(_asks, body, said)


def _mode() -> Shape:
    def asks(parts: ProgramParts) -> None:
        parts.env()
        parts.writer.uses("torchrl.modules.tensordict_module.rnn", "recurrent_mode")
        parts.add(_MODES)
        parts.batches()

    return Shape(asks, lambda _: "")


_CARRIED = (
    "stored = torch.cat([batch[key][:, 1:].flatten(2) for key in STATES], -1)",
    'following = torch.cat([batch["next", key][:, :-1].flatten(2) for key in STATES], -1)',
)
_STARTED = (
    "held = torch.cat([batch[key].flatten(2) for key in STATES], -1)",
    'one = held[batch["is_init"].reshape(batch.shape)]',
    "other = torch.zeros_like(one)",
)
_SEAM = (
    'going = ~earlier["next", "done"].reshape(earlier.shape)[:, -1]',
    'one = torch.cat([earlier["next", key][:, -1].flatten(1) for key in STATES], -1)[going]',
    "other = torch.cat([batch[key][:, 0].flatten(1) for key in STATES], -1)[going]",
)
_OUTPUT = ("recorded while acting", "the same steps, one after the other")
_FULL = ("recorded while acting", "in one pass over the batch")

SHAPES: dict[str, Callable[[], list[Shape]]] = {
    "CL401": lambda: [_replayed("step_by_step", _OUTPUT)],
    "CL402": lambda: [
        recorded(
            *_CARRIED, "one, other = following[~begins[:, 1:]], stored[~begins[:, 1:]]",
            said=("state that a step left", "state that the next step began with"),
        )
    ],
    "CL403": lambda: [
        recorded(*_STARTED, said=("state where an episode begins", "initial state")),
    ],
    "CL404": lambda: [
        _between(*_SEAM, said=("state at the end of a batch", "state at the next batch's begin")),
    ],
    "CL405": lambda: [_marked(0), _marked(-1)],
    "CL406": lambda: [_replayed("in_one_pass", _FULL), _replayed("step_by_step", _OUTPUT)],
    "CL408": lambda: [_taken_over()],
    "CL409": lambda: [
        recorded(
            "kept = [one for one in batch.flatten_keys().values() if one.is_floating_point()]",
            "other = torch.tensor([float((~one.isfinite()).sum()) for one in kept])",
            "one = torch.zeros_like(other)",
            said=("numbers of a recorded entry that are not finite, expected", "found"),
        )
    ],
    "CL410": lambda: [_mode(), _replayed("step_by_step", _OUTPUT)],
}  # fmt: skip
