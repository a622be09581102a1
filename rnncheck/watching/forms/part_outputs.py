"""What the parts of a network give, where the network itself writes nothing that could be compared:
a sampled action tells little of the numbers that it was drawn by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.keys import Key, declared, root_keys
from rnncheck.pipeline.subject.modes import measuring

_TURNS = 4  # passes that are made by turns, step by step: chosen, twice a pass and its next one
PARTS = "parts"  # under which their outputs stand in a batch


def innermost_parts(network: nn.Module) -> dict[str, nn.Module]:
    """The parts with weights of their own and no parts inside, by path."""
    return {
        path: part
        for path, part in network.named_modules()
        if part._parameters and not part._modules
    }


class PartOutputs:
    """Notes what ``parts`` give while the context is open, call by call."""

    _open: ClassVar[list[PartOutputs]] = []

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        self._paths = {id(part): path for path, part in parts.items()}
        self.given: dict[str, list[Tensor]] = defaultdict(list)

    def __enter__(self) -> PartOutputs:
        self._handle = register_module_forward_hook(self.note)
        self._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()
        self._open.remove(self)

    def note(self, part: nn.Module, _inputs: Any, result: Any) -> None:
        """A module has run."""
        path = self._paths.get(id(part))
        if path is not None and isinstance(result, Tensor):
            self.given[path].append(result)


class CallsNoted:
    """The calls that open notes have from here on."""

    def __init__(self) -> None:
        notes = PartOutputs._open
        self._from = [
            (one, {path: len(calls) for path, calls in one.given.items()}) for one in notes
        ]

    def take_back(self) -> None:
        """They were of what failed."""
        for one, before in self._from:
            for path, calls in one.given.items():
                del calls[before.get(path, 0) :]

    def join(self, sizes: Sequence[int], size: int) -> None:
        """They were of parts of the rows, each filled up to ``size`` rows: as one call of as many
        rows as the ``sizes`` have together."""
        for one, before in self._from:
            for path, calls in one.given.items():
                begin = before.get(path, 0)
                each, rest = divmod(len(calls) - begin, len(sizes))
                if each == 1 and not rest and all(len(v) % size == 0 for v in calls[begin:]):
                    pairs = zip(calls[begin:], sizes, strict=True)
                    calls[begin:] = [torch.cat([v[: rows * len(v) // size] for v, rows in pairs])]


def of_one_step(given: Mapping[str, list[Tensor]], lead: torch.Size) -> dict[str, Tensor]:
    """The vectors that parts gave once, for every env of one step, those of several agents as one;
    with a dimension of one for the time or not."""
    once = {path: found[0] for path, found in given.items() if len(found) == 1}
    return {
        path: value.reshape(*lead, -1)
        for path, value in once.items()
        if value.is_floating_point() and value.ndim and _is_of(value.shape[:-1], lead)
    }


def _is_of(shape: torch.Size, lead: torch.Size) -> bool:
    """Whether the envs come first: one row each, or one for each agent of each."""
    mine, envs = ([size for size in one if size != 1] for one in (shape, lead))
    return mine[: len(envs)] == envs or (
        len(shape) == 1 and bool(shape.numel()) and shape.numel() % lead.numel() == 0
    )


def part_key(path: str) -> Key:
    """Where the output of the part at ``path`` stands in a batch."""
    return (PARTS, path)


class WithParts(nn.Module):
    """A policy that also writes what its parts at ``paths`` give. What it ``reads`` and ``writes``
    itself was seen: it may declare neither. Raises RuntimeError where a part runs at some steps
    alone: what a step writes must not depend on chance."""

    def __init__(
        self, network: nn.Module, paths: Iterable[str], reads: Iterable[Key], writes: Iterable[Key]
    ) -> None:
        super().__init__()
        self.network, self._paths = network, tuple(paths)
        self._ran: set[str] | None = None  # those that gave something at the first step
        self.in_keys = list(declared(network, "in_keys") or reads)
        written = [*declared(network, "out_keys"), *writes, *map(part_key, self._paths)]
        self.out_keys = list(dict.fromkeys(written))

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        """One step of the policy."""
        parts = {path: self.network.get_submodule(path) for path in self._paths}
        with PartOutputs(parts) as noted:
            result = self.network(td)
        out = result if isinstance(result, TensorDictBase) else td
        given = of_one_step(noted.given, out.batch_size)
        self._ran = set(given) if self._ran is None else self._ran
        for path in self._ran ^ set(given):
            raise RuntimeError(
                f"what acts runs `{path}` at some steps alone, as where the actions of others are"
                " random: the state of these goes another way each time"
            )
        for path, value in given.items():
            out.set(part_key(path), value)
        return out


def reads_of(network: nn.Module, step: TensorDictBase) -> list[Key]:
    """The entries of ``step`` without which the network does not run."""
    asked = copy_of(network, "the policy")
    return [key for key in root_keys(step) if not _runs(asked, step.exclude(key))]


def _runs(network: nn.Module, td: TensorDictBase) -> bool:
    try:
        with measuring(recurrent=False):
            network(td)
    except Exception:  # the user's module may raise anything
        return False
    return True


def over_steps(values: list[Tensor], rows: int, steps: int, *, time_first: bool) -> Tensor | None:
    """What calls of one part gave as ``[rows, steps, features]``, those of several agents as one:
    in one of them for all steps, or one step a call; None where it is neither."""
    whole = all_at_once(values, rows, steps, time_first=time_first)
    return step_by_step(values, rows, steps) if whole is None else whole


def all_at_once(values: list[Tensor], rows: int, steps: int, *, time_first: bool) -> Tensor | None:
    """The same of one call for all steps."""
    for first in (time_first, not time_first):
        outer, inner = (steps, rows) if first else (rows, steps)
        for value in values:
            flat = value.shape[0] == rows * steps and value.ndim == 2
            if flat or tuple(value.shape[: min(2, value.ndim - 1)]) == (outer, inner):
                whole = value.reshape(outer, inner, -1)
                return whole.transpose(0, 1) if first else whole
    return None


def step_by_step(values: list[Tensor], rows: int, steps: int) -> Tensor | None:
    """The same of one call for each step."""
    one = [value for value in values if value.shape[:-1].numel() == rows]
    if len(one) < steps:  # a row for each agent
        counts = {v.shape[:-1].numel() for v in values if v.shape[:-1].numel() % rows == 0}
        several = [v for v in values if counts == {v.shape[:-1].numel()}]
        one = several if len(several) == steps else []
    return torch.stack([v.reshape(rows, -1) for v in one[:steps]], 1) if len(one) >= steps else None


def own_calls(
    values: list[Tensor], recorded: Tensor | None, rows: int, steps: int, *, time_first: bool
) -> slice:
    """Which of its calls are those on the steps, where a part is called for other passes by turns
    with them, or ahead of all of them or behind, such as on what is seen next: what they give is
    nearest to what was ``recorded`` ``[rows, steps, ...]``."""
    best, found = slice(None), torch.inf
    ways = list(_other_calls(len(values), steps))
    if recorded is None or not ways:
        return best
    for one in (best, *ways):
        laid = over_steps(values[one], rows, steps, time_first=time_first)
        if laid is not None and laid.numel() == recorded.numel():
            apart = float((laid.detach() - recorded.reshape(laid.shape).to(laid)).abs().mean())
            best, found = (one, apart) if apart < found else (best, found)
    return best


def _other_calls(count: int, steps: int) -> Iterator[slice]:
    """Some of so many calls that may be those on the steps, if others are beside them."""
    passes, rest = divmod(count, steps)
    if not rest and 1 < passes <= _TURNS:
        yield from (slice(n, None, passes) for n in range(passes))
    elif 0 < (more := count - steps) <= _TURNS:
        yield from (slice(None, -more), slice(more, None))


def behind_burn_in(
    values: list[Tensor], rows: int, steps: int, *, time_first: bool, of_all: bool = False
) -> tuple[Tensor | None, int]:
    """The same of a part whose first steps run without a graph, ahead of the others, and how many
    these are: a burn-in, ``of_all`` calls without one or of the first of them. None where it is no
    such part."""
    first = next((n for n, value in enumerate(values) if value.requires_grad), 0)
    trained = [value for value in values[first:] if value.requires_grad]
    sizes = [value.shape[:-1].numel() for value in trained]
    count, rest = divmod(sum(sizes), rows)
    if not first or rest or not 0 < count < steps:
        return None, 0
    laid = over_steps(trained, rows, count, time_first=time_first)
    ahead = (
        over_steps(values[:n], rows, steps - count, time_first=time_first)
        for n in ((first,) if of_all else range(1, first + 1))
        if not of_all or steps - count == first or first == 1
    )
    burnt = next((one for one in ahead if one is not None), None)
    if laid is None or burnt is None:
        return None, 0
    return torch.cat([burnt, laid], 1), steps - count
