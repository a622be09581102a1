"""Programs about a network alone: two of its runs over the same made-up steps.

Two rows of six steps; an episode begins at steps 0 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tensordict import TensorDictBase
from tensordict.nn import ProbabilisticTensorDictModule
from torch import Tensor, nn

from rnncheck.cases.model import CaseError
from rnncheck.cases.programs.parts import ProgramParts
from rnncheck.cases.programs.shape import Shape
from rnncheck.cases.programs.texts import entry, folded, inner_code, key_code, literal, packed
from rnncheck.pipeline.keys import Key, as_key, declared, tensor_keys
from rnncheck.pipeline.subject.env_facts import transforms
from rnncheck.pipeline.subject.training_pass import TwoPasses

ROWS, STEPS = 2, 6
_FLAG = "is_init"
_NUMBERS = '''\
def numbers(out, keys=KEYS):
    """What it wrote, [rows, steps, numbers]."""
    return torch.cat([out[key].reshape({shape}, -1).float() for key in keys], -1)
'''
_IN_ONE = '''\
{modes}def in_one_pass(data):
    """Whole sequences at once, as in training."""
    return {name}(data.clone())
'''
_BY_STEPS = '''\
{modes}def step_by_step(data):
    """One step after the other, as in acting."""
    found = []
    for t in range(data.shape[1]):
        step = data[:, t].clone()
{carrying}
        found.append({name}(step))
    return torch.stack(found, 1)
'''
_PRIMED = """\
        for key in STATES if found else []:  # the state goes on, but where an episode begins
            carried = found[-1]["next", key]
            begins = step["is_init"].reshape(-1, *[1] * (carried.ndim - 1))
            step[key] = torch.where(begins, step[key], carried)"""
_CARRIED = """\
        for key in STATES if found else []:  # no reset of the env writes a state
            step[key] = found[-1]["next", key]"""
_GRADIENTS = '''\
def gradients(run):
    """Of a sum over what it wrote, at all parameters."""
    total = numbers(run(data)).pow(2).sum()
    asked = list({name}.parameters())
    found = torch.autograd.grad(total, asked, allow_unused=True)
    return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten()
                      for p, g in zip(asked, found)])
'''


@dataclass(frozen=True)
class Network:
    """The policy or the critic, as a program sees it: what it reads, carries and writes."""

    name: str
    live: nn.Module
    batch: TensorDictBase
    outputs: tuple[Key, ...]
    primed: frozenset[Key]  # the states that resets of the env write

    @property
    def states(self) -> list[Key]:
        """What it reads, and writes under next or finds primed by the env."""
        written = set(declared(self.live, "out_keys"))
        asked = dict.fromkeys(declared(self.live, "in_keys"))
        return [key for key in asked if ("next", *key) in written or key in self.primed]

    @property
    def observed(self) -> list[Key]:
        """What it reads besides."""
        known = set(tensor_keys(self.batch))
        asked = [key for key in declared(self.live, "in_keys") if key[0] != "next"]
        rest = [key for key in asked if key not in self.states and key[-1] != _FLAG]
        return [key for key in dict.fromkeys(rest) if key in known]

    @property
    def written(self) -> list[Key]:
        """What it writes of numbers."""
        keys = [key for key in self.outputs if key[0] != "next"]
        return [key for key in keys if key[-1] != "action" and self._may_be_numbers(key)]

    def _may_be_numbers(self, key: Key) -> bool:
        found = self.batch.get(key, None)
        return found is None or (isinstance(found, Tensor) and found.is_floating_point())

    def feature(self, key: Key) -> Tensor:
        """Its values, one step after the other."""
        value: Tensor = self.batch.get(key)
        return value.reshape(-1, *value.shape[self.batch.ndim :])


def network_of(parts: ProgramParts) -> Network:
    """The one that the finding is about."""
    stage = parts.case.seen.reason.split("|")[1:2]
    critic = stage == ["critic"] and parts.pipeline.critic is not None
    live = parts.pipeline.critic if critic else parts.pipeline.policy
    if live is None:
        raise CaseError("there is no network")
    passing = None if critic else parts.spec.training_pass
    named = () if passing is None else tuple(map(as_key, passing.out_keys))
    outputs = named or declared(live, "out_keys")
    name, collected = "critic" if critic else "policy", parts.pipeline.batches
    batch = collected[0] if collected else parts.pipeline.env.fake_tensordict()
    return Network(name, live, batch, outputs, frozenset(_primed(parts.pipeline.env)))


def _primed(env: Any) -> Iterator[Key]:
    for one in transforms(env):
        if (primers := getattr(one, "primers", None)) is not None:
            yield from (as_key(key) for key in primers.keys(True, True))


def asks_network(parts: ProgramParts) -> None:
    """The network, and those that it is made of."""
    parts.critic() if network_of(parts).name == "critic" else parts.policy()


def functions(parts: ProgramParts, network: Network, shape: str, *names: str) -> list[str]:
    """The functions of these names over the batch ``[*shape]``."""
    modes = ""
    if any(isinstance(one, ProbabilisticTensorDictModule) for one in network.live.modules()):
        parts.writer.uses("torchrl.envs.utils", "ExplorationType", "set_exploration_type")
        modes = "@set_exploration_type(ExplorationType.DETERMINISTIC)\n"
    found = []
    for name in names:
        if name == "numbers":
            found.append(_NUMBERS.format(shape=shape))
        elif name == "step_by_step":
            carrying = _PRIMED if _is_primed(network) else _CARRIED
            found.append(_BY_STEPS.format(modes=modes, name=network.name, carrying=carrying))
        elif name == "gradients":
            found.append(_GRADIENTS.format(name=network.name))
        else:
            found.append(_pass(parts, network, modes))
    return found


def _is_primed(network: Network) -> bool:
    """Whether the env's resets write the states, and the batch holds them."""
    return set(network.states) <= network.primed & set(tensor_keys(network.batch))


def _pass(parts: ProgramParts, network: Network, modes: str) -> str:
    pristine = parts.pipeline.pristine_policy
    if network.name == "policy" and isinstance(pristine, TwoPasses):
        return _own_pass(parts)
    parts.writer.uses("torchrl.modules", "set_recurrent_mode")
    return _IN_ONE.format(modes=f"@set_recurrent_mode(True)\n{modes}", name=network.name)


def _own_pass(parts: ProgramParts) -> str:
    """The user's function over sequences."""
    section, pristine = parts.spec.training_pass, parts.pipeline.pristine_policy
    if section is None or not isinstance(pristine, TwoPasses):
        raise CaseError("the training pass is not there")
    call: Any = pristine.over_sequences
    module, _, name = (section.factory or "").partition(":")
    parts.writer.uses(module, name)
    parts.writer.own = True
    named = {**call.given, **({"policy": None} if "policy" in call.given else {})}
    given = [
        f"{key}={'policy' if key == 'policy' else parts.writer.written(value)}"
        for key, value in named.items()
    ]
    first = f"{call.batch}=batch" if call.batch else "batch"
    turned = ".transpose(0, 1).contiguous()" if section.time_first else ""
    lines = ["def in_one_pass(data):", '    """The pass that trains."""']
    lines += [f"    batch = data.clone(){turned}"]
    lines += folded(f"found = {name}({', '.join([first, *given])})", "    ")
    if section.out_keys:
        keys = ", ".join(key_code(as_key(one)) for one in section.out_keys)
        lines.append(f"    found = dict(zip([{keys}], found))")
    back = ".transpose(0, 1)" if section.time_first else ""
    parts.writer.uses("tensordict", "TensorDict")
    return "\n".join([*lines, f"    return TensorDict(found, batch.shape){back}", ""])


def made_up(parts: ProgramParts) -> str:
    """``data``, and the functions that run the network over it."""
    network = network_of(parts)
    if not network.observed or not network.written:
        raise CaseError("what the network reads or writes is not declared")
    parts.writer.uses("tensordict", "TensorDict")
    lines = [
        f"starts = torch.zeros({ROWS}, {STEPS}, 1, dtype=torch.bool)",
        "starts[:, ::3] = True  # an episode begins at steps 0 and 3 of each row",
        "data = TensorDict({",
        *packed(_entries(network)),
        f"}}, [{ROWS}, {STEPS}])",
        f"KEYS = [{', '.join(map(key_code, network.written))}]",
    ]
    return "\n".join(lines) + "\n"


def _entries(network: Network) -> Iterator[str]:
    for key in network.observed:
        value = network.feature(key)
        sizes = ", ".join(map(str, [ROWS, STEPS, *value.shape[1:]]))
        if value.is_floating_point():
            dtype = "" if str(value.dtype) == "torch.float32" else f", dtype={value.dtype}"
            yield entry(key_code(key), f"torch.randn({sizes}{dtype})")
        else:
            times = -(-ROWS * STEPS // len(value))
            tiled = value.repeat(times, *[1] * (value.ndim - 1))[: ROWS * STEPS]
            yield entry(key_code(key), literal(tiled.reshape(ROWS, STEPS, *value.shape[1:])))
    yield entry('"is_init"', "starts")
    for key in network.states:
        if network.batch.get(key, None) is not None:
            value = network.feature(key)
            sizes = ", ".join(map(str, [ROWS, STEPS, *value.shape[1:]]))
            dtype = "" if str(value.dtype) == "torch.float32" else f", dtype={value.dtype}"
            yield entry(key_code(key), f"torch.zeros({sizes}{dtype})")


def _changed(network: Network, place: str) -> list[str]:
    """``moved``: the data with other observations at a place."""
    lines = ["moved = data.clone()"]
    for key in network.observed:
        value = network.feature(key)
        target = f"moved[{inner_code(key)}]{place}"
        if value.is_floating_point():
            lines.append(f"{target} += 1.0")
        elif value.dtype.is_signed and value.numel():
            lines.append(f"{target} = ({target} + 1) % {int(value.max()) + 1}")
    return lines


def _whole(parts: ProgramParts, names: tuple[str, ...], *lines: str) -> str:
    network = network_of(parts)
    parts_of = functions(parts, network, f"{ROWS}, {STEPS}", *names)
    if "STATES" in "".join([*parts_of, *lines]):
        lines = (f"STATES = [{', '.join(map(key_code, network.states))}]", *lines)
    return "\n".join([made_up(parts), *parts_of, *lines, ""])


def moved_by(
    run: str, place: str, looked: str, said: tuple[str, str], *, should_differ: bool = False
) -> Shape:
    """What one run gives at ``looked``, and with other observations at ``place``."""

    def body(parts: ProgramParts) -> str:
        return _whole(
            parts,
            ("numbers", run),
            *_changed(network_of(parts), place),
            f"one = numbers({run}(data)){looked}",
            f"other = numbers({run}(moved)){looked}",
        )

    return Shape(asks_network, body, said, should_differ)


def two_runs(
    names: tuple[str, ...], one: str, other: str, said: tuple[str, str], *before: str
) -> Shape:
    """Two expressions over the made-up data."""

    def body(parts: ProgramParts) -> str:
        return _whole(parts, names, *before, f"one = {one}", f"other = {other}")

    return Shape(asks_network, body, said)


def _gradient_at(looked: str, place: str, said: tuple[str, str], *, cut: bool = False) -> Shape:
    """The gradient of what is written at ``looked`` at what is observed at ``place``: it should be
    zero; or, where it was ``cut``, it should not."""

    def body(parts: ProgramParts) -> str:
        network = network_of(parts)
        keys = [key for key in network.observed if network.feature(key).is_floating_point()]
        if not keys:
            raise CaseError("what is observed has no gradient")
        key = key_code(keys[0])
        lines = [
            f"leaf = data[{key}].clone().requires_grad_()",
            f"data[{key}] = leaf",
            f"total = numbers(in_one_pass(data)){looked}.pow(2).sum()",
            "(found,) = torch.autograd.grad(total, leaf)",
            f"other = found{place}.abs()",
        ]
        if not cut:
            return _whole(
                parts, ("numbers", "in_one_pass"), *lines, "one = torch.zeros_like(other)"
            )
        lines += _changed(network, place)
        again = f"numbers(in_one_pass(moved)){looked}.pow(2).sum()"
        lines += [f"moves = ({again} - total).abs().item()", f'print("{said[0]}:", moves)']
        lines += [f'print("{said[1]}:", other.max().item())']
        lines += ["sys.exit(moves > 0 and not bool(other.any()))", ""]
        return _whole(parts, ("numbers", "in_one_pass"), *lines)

    return Shape(asks_network, body, None if cut else said)


_OTHER = "with another observation before"
_BEFORE, _BEHIND = "[:, :3]", "[:, 3:]"
_PASS, _STEPS = "in_one_pass", "step_by_step"
_OF_SECOND = "written in the second episode"
_ROW = ("written in the second row", "with another first row")
_MEMORY = ("written later in an episode", "with another first observation")
_TWICE = ("the first time", "the second time")
_AHEAD = ("written before the last step", "with another last observation")

_RUN_ON = moved_by(_PASS, _BEFORE, _BEHIND, (_OF_SECOND, _OTHER))
_ACTS_ON = moved_by(_STEPS, _BEFORE, _BEHIND, (_OF_SECOND, _OTHER))
_CUT = ("change of what is written later by another first observation", "gradient there")

SHAPES: dict[str, Callable[[], list[Shape]]] = {
    "EQ201": lambda: [
        two_runs(
            ("numbers", _STEPS, _PASS), f"numbers({_STEPS}(data))", f"numbers({_PASS}(data))",
            ("one step after the other", "in one pass"),
        )
    ],
    "EQ202": lambda: [
        two_runs(
            ("numbers", _STEPS, _PASS),
            f"numbers({_STEPS}(data), AFTER)[:, [2, 5]]",
            f"numbers({_PASS}(data), AFTER)[:, [2, 5]]",
            ("state at an episode's end, one step after the other", "in one pass"),
            'AFTER = [("next", key) for key in STATES]',
        )
    ],
    "EQ204": lambda: [
        two_runs(
            ("numbers", _PASS), f"numbers({_PASS}(data))",
            f"numbers({_PASS}(data.reshape(-1)))",
            ("rows of six steps", "the same steps in one row"),
        ),
    ],
    "EQ205": lambda: [
        two_runs(
            ("numbers", _STEPS, _PASS, "gradients"), f"gradients({_STEPS})", f"gradients({_PASS})",
            ("gradient at a parameter, one step after the other", "in one pass"),
        )
    ],
    "EQ206": lambda: [
        two_runs(("numbers", run), f"numbers({run}(data))", f"numbers({run}(data))", _TWICE)
        for run in (_STEPS, _PASS)
    ],
    "BD301": lambda: [_RUN_ON],
    "BD302": lambda: [_ACTS_ON],
    "BD303": lambda: [
        _gradient_at(
            _BEHIND, _BEFORE,
            ("gradient of the second episode at the first one, expected", "found"),
        )
    ],
    "BD304": lambda: [moved_by(_PASS, "[:, 5:]", "[:, :5]", _AHEAD)],
    "BD305": lambda: [moved_by(run, "[:1]", "[1:]", _ROW) for run in (_PASS, _STEPS)],
    "BD306": lambda: [
        moved_by(run, "[:, :1]", "[:, 1:3]", _MEMORY, should_differ=True) for run in (_PASS, _STEPS)
    ],
    "BD307": lambda: [_RUN_ON, _ACTS_ON],
    "GR801": lambda: [_gradient_at("[:, 2]", "[:, 0]", _CUT, cut=True)],
    "WR101": lambda: [moved_by(_STEPS, "[:, :1]", "[:, 1:3]", _MEMORY, should_differ=True)],
}  # fmt: skip
