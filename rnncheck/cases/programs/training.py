"""Programs about losses and value estimators: what they make of a training batch, and of the batch
with something changed."""

from __future__ import annotations

from collections.abc import Callable

from rnncheck.cases.model import CaseError
from rnncheck.cases.programs.modules import network_of
from rnncheck.cases.programs.parts import ProgramParts
from rnncheck.cases.programs.shape import Shape
from rnncheck.cases.programs.texts import inner_code, key_code
from rnncheck.pipeline.keys import Key, as_key, declared, tensor_keys
from rnncheck.pipeline.subject.subject import carriers

_REWARD: Key = ("next", "reward")
_SEGMENTS = """\
begins = sample["is_init"].reshape(sample.shape).clone()
begins[..., 0] = True
segment = begins.flatten().cumsum(0)  # of each step, the first one is 1
"""
_END = """\
for name in ("done", "{kind}"):
    sample["next", name][..., 1, :] = True  # an episode ends at the second step of each row
sample["is_init"][..., 2, :] = True
ends = torch.zeros(sample.shape, dtype=torch.bool)
ends[..., 1] = True
ends = ends.flatten()
"""
_TERMS = """\
def terms(change):
    data = sample.clone()
{changed}
    if "--mended" in sys.argv:
        data["next", "is_init"] = data["is_init"].clone()
    parts = [one.flatten() for one in loss(data).values() if one.numel() == first.numel()]
    return torch.stack(parts)[:, ~first].flatten().tolist()


before, after = terms(0.0), terms(1.0)
print(f"losses of the other segments:   {{before}}")
print(f"with the first segment changed: {{after}}")
sys.exit(before != after)
"""
_TOTAL = '''\
def total(data):
    """The loss as one number."""
    torch.manual_seed(0)
    found = loss(data.clone())
    if isinstance(found, torch.Tensor):
        return found.mean()
    return torch.stack([one.mean() for name, one in found.items() if "loss" in name]).sum()
'''
_GRADIENT = '''\
def gradient(data):
    """Of the loss at each observation."""
    data = data.clone()
    leaf = data[{key}] = data[{key}].clone().requires_grad_()
    (found,) = torch.autograd.grad(total(data), leaf)
    return found.reshape(segment.numel(), -1)
'''
_ESTIMATE = '''\
def estimates(data):
    """What the estimator writes, [steps, numbers]."""
    return estimate(data)[{key}].detach().reshape(segment.numel(), -1)
'''


def _stock(parts: ProgramParts) -> bool:
    section = parts.spec.loss
    return section is not None and section.use is not None


def _asks_terms(parts: ProgramParts) -> None:
    if not _stock(parts):
        raise CaseError("a loss of your own tells nothing per step")
    parts.loss(reduction="none")
    parts.training_batch()


def _asks_loss(parts: ProgramParts) -> None:
    parts.loss()
    parts.training_batch()


def _asks_sample(parts: ProgramParts) -> None:
    parts.networks()
    parts.sample()


def _asks_estimate(parts: ProgramParts) -> None:
    parts.estimate()
    parts.batch_to_estimate()


def _asks_estimate_anew(parts: ProgramParts) -> None:
    """A next value rests on a stored state: both are of the program's weights."""
    parts.estimate()
    parts.batch_to_estimate(anew=True)


def _observed(parts: ProgramParts) -> list[Key]:
    """What is observed at a step: floats that the networks read, and do not write."""
    networks = [one for one in (parts.pipeline.policy, parts.pipeline.critic) if one is not None]
    read = {key for one in networks for key in declared(one, "in_keys")}
    written = {key for one in networks for key in declared(one, "out_keys")}
    written |= {key[1:] for key in written if key[0] == "next"}
    batch = parts.batch()
    known = [key for key in tensor_keys(batch) if key in read - written]
    found = [key for key in known if batch.get(key).is_floating_point()]
    if not found:
        raise CaseError("what is observed has no gradient, and cannot be changed a little")
    return found


def _moved(parts: ProgramParts, where: str, *, alone: bool = False) -> list[str]:
    """``moved``: the batch with other observations at some steps; unless they ``alone``, with other
    next ones and rewards."""
    batch, keys = parts.batch(), _observed(parts)
    if not alone:
        following = [*(("next", *key) for key in keys), _REWARD]
        keys = [*keys, *(key for key in following if key in tensor_keys(batch))]
    last = batch.ndim - 1
    changed = (f"moved[{inner_code(key)}].flatten(0, {last})[{where}] += 1.0" for key in keys)
    return ["moved = sample.clone()", *changed]


def _terms(parts: ProgramParts) -> str:
    keys = [key_code(key) for key in _observed(parts)]
    last = parts.batch().ndim - 1
    lines = ['    for part in (data, data["next"]):']
    lines += [f"        part[{key}].flatten(0, {last})[first] += change" for key in keys]
    return _first_segment(parts) + _TERMS.format(changed="\n".join(lines))


def _first_segment(parts: ProgramParts) -> str:
    """``first``: its steps."""
    if not parts.is_written_out:
        return f"{_SEGMENTS}first = segment == 1\n"
    batch = parts.batch()
    begins = batch["is_init"].reshape(batch.shape).clone()
    begins[..., 0] = True
    steps = begins.flatten().cumsum(0).eq(1).tolist()
    return f"first = torch.tensor({steps})  # the steps of the first segment\n"


def _gradients(
    place: str, looked: str, said: tuple[str, str], *, should_differ: bool = False
) -> Shape:
    """The loss's gradient at some steps, and with other observations at another ``place``."""

    def body(parts: ProgramParts) -> str:
        key = key_code(_observed(parts)[0])
        lines = [
            *_moved(parts, place, alone=should_differ),
            f"one, other = gradient(sample)[{looked}], gradient(moved)[{looked}]",
        ]
        defined = f"{_TOTAL}\n\n{_GRADIENT.format(key=key)}\n\n"
        return f"{_SEGMENTS}\n\n{defined}" + "\n".join([*lines, ""])

    return Shape(_asks_loss, body, said, should_differ)


def _totals(
    changed: Callable[[ProgramParts], list[str]], said: tuple[str, str], *, ending: str = ""
) -> Shape:
    """The loss of the batch, and of the batch ``moved``."""

    def body(parts: ProgramParts) -> str:
        lines = [*changed(parts), "one, other = total(sample).detach(), total(moved).detach()"]
        end = _END.format(kind=ending) if ending else ""
        return f"{end}{_SEGMENTS}\n\n{_TOTAL}\n\n" + "\n".join([*lines, ""])

    return Shape(_asks_loss, body, said)


def _estimates(
    changed: Callable[[ProgramParts], list[str]],
    looked: str,
    said: tuple[str, str],
    *,
    should_differ: bool = False,
    ending: str = "",
) -> Shape:
    """What the estimator gives at some steps, and with the batch ``moved``."""

    def body(parts: ProgramParts) -> str:
        end = _END.format(kind=ending) if ending else ""
        defined = f"{end}{_SEGMENTS}\n\n{_ESTIMATE.format(key=_target(parts))}\n\n"
        lines = [
            *changed(parts),
            f"one, other = estimates(sample)[{looked}], estimates(moved)[{looked}]",
        ]
        return defined + "\n".join([*lines, ""])

    return Shape(_asks_estimate, body, said, should_differ)


def _target(parts: ProgramParts) -> str:
    """What the estimator writes."""
    pipeline = parts.pipeline
    known = [*pipeline.estimated[:1], *pipeline.samples[:1]]
    written = [key for one in known for key in tensor_keys(one)]
    for key in (as_key(tuple(parts.case.seen.key.split("."))), ("value_target",), ("advantage",)):
        if key in written and key not in tensor_keys(parts.batch()):
            return key_code(key)
    raise CaseError("what the estimator writes is not known")


def _at_ends(parts: ProgramParts) -> list[str]:
    """``moved``: other next observations where episodes end."""
    last, known = parts.batch().ndim - 1, tensor_keys(parts.batch())
    keys = [key for key in (("next", *one) for one in _observed(parts)) if key in known]
    changed = (f"moved[{inner_code(key)}].flatten(0, {last})[ends] += 1.0" for key in keys)
    return ["moved = sample.clone()", *changed]


def _last_next(parts: ProgramParts) -> list[str]:
    """``moved``: other next observations at the last step of each row."""
    lines = [
        "last = torch.zeros(sample.shape, dtype=torch.bool)",
        "last[..., -1] = True",
        'last = (last & ~sample["next", "done"].reshape(sample.shape)).flatten()',
        "moved = sample.clone()",
    ]
    depth = parts.batch().ndim - 1
    keys = [("next", *key) for key in _observed(parts)]
    return lines + [f"moved[{inner_code(key)}].flatten(0, {depth})[last] += 1.0" for key in keys]


def _first_states(parts: ProgramParts) -> list[str]:
    """``moved``: other stored states at the first step of each row."""
    lines = [
        "rows = torch.zeros(sample.shape, dtype=torch.bool)",
        "rows[..., 0] = True",
        'rows = (rows & ~sample["next", "done"].reshape(sample.shape)).flatten()',
        "moved = sample.clone()",
    ]
    depth, known = parts.batch().ndim - 1, tensor_keys(parts.batch())
    for state in network_of(parts).states:
        for key in (state, ("next", *state)):
            if key in known:
                lines.append(f"moved[{inner_code(key)}].flatten(0, {depth})[rows] += 1.0")
    return lines


def _consistent(parts: ProgramParts) -> str:
    """Next values against the values of the next steps."""
    lines = [
        "found = estimate(sample)",
        'inside = ~begins[..., 1:] & ~sample["next", "done"].reshape(sample.shape)[..., :-1]',
        'one = found["next", "state_value"].detach().reshape(sample.shape)[..., :-1][inside]',
        'other = found["state_value"].detach().reshape(sample.shape)[..., 1:][inside]',
        "",
    ]
    return _SEGMENTS + "\n".join(lines)


def _reordered(parts: ProgramParts) -> list[str]:
    """``moved``: the slices in the opposite order."""
    if parts.batch().ndim > 1:
        return ["moved = sample.flip(0)"]
    return [
        "order = [(segment == n).nonzero().flatten() for n in segment.unique().flip(0)]",
        "moved = sample[torch.cat(order)]",
    ]


def _rewritten(parts: ProgramParts) -> str:
    """The batch's own entries before the loss and after it."""
    key = inner_code(tuple(parts.case.seen.key.split(".")))
    return f"one = sample[{key}].clone().float()\nloss(sample)\nother = sample[{key}].float()\n"


def _again(_: ProgramParts) -> str:
    return (
        f"\n\n{_TOTAL}\n\n"
        "kept, total_of = sample.clone(), total\n"
        "one = total(kept).detach()\n"
        "loss(sample)\n"
        "other = total(sample).detach()\n"
    )


def _asks_batch_and(part: str) -> Callable[[ProgramParts], None]:
    def asks(parts: ProgramParts) -> None:
        if part == "loss":
            _asks_loss(parts)
        else:
            _asks_estimate(parts)

    return asks


def _raises(part: str, call: str) -> Shape:
    """It raises on the batch."""
    body = (
        f"try:\n    {call}\n"
        "except Exception as error:\n"
        f'    print("expected of the {part}: a value")\n'
        '    print("found:", type(error).__name__, str(error).splitlines()[0])\n'
        "    sys.exit(1)\n"
    )
    return Shape(_asks_batch_and(part), lambda _: body)


def _ratio(parts: ProgramParts) -> str:
    """The stored log-probabilities against those of the policy as it is."""
    known = tensor_keys(parts.batch())
    name = next((key for key in known if key[0] != "next" and key[-1].endswith("log_prob")), None)
    if name is None:
        raise CaseError("the batch holds no log-probability")
    parts.writer.uses("torchrl.modules", "set_recurrent_mode")
    return (
        "with torch.no_grad(), set_recurrent_mode(True):\n"
        '    other = policy.get_dist(sample.clone()).log_prob(sample["action"])\n'
        f"one = sample[{inner_code(name)}].reshape(other.shape)\n"
    )


def _not_finite(_: ProgramParts) -> str:
    return (
        f"\n\n{_TOTAL}\n\nvalue = total(sample)\nvalue.backward()\n"
        "grads = [p.grad for p in policy.parameters() if p.grad is not None]\n"
        "other = torch.tensor([float((~one.isfinite()).sum()) for one in [value, *grads]])\n"
        "one = torch.zeros_like(other)\n"
    )


def _without_gradient(parts: ProgramParts) -> str:
    """The largest gradient of the parameters of the modules with a memory."""
    network = network_of(parts)
    paths = [one.path for one in carriers(network.live)]
    if not paths:
        raise CaseError("no module declares that it carries a state")
    modules = ", ".join(
        f"{network.name}.get_submodule({key_code((path,))})" if path else network.name
        for path in paths
    )
    return (
        f"\n\n{_TOTAL}\n\ntotal(sample).backward()\n"
        f"memory = [p for module in [{modules}] for p in module.parameters()]\n"
        f"others = [p for p in {network.name}.parameters()\n"
        "          if all(p is not one for one in memory)]\n"
        "sizes = [max([float(p.grad.abs().max()) for p in part if p.grad is not None], default=0.0)"
        "\n         for part in (others, memory)]\n"
        'print("largest gradient of the other parameters:", sizes[0])\n'
        'print("largest gradient of the memory:          ", sizes[1])\n'
        "sys.exit(sizes[1] == 0.0)\n"
    )


def _does_not_learn(_: ProgramParts) -> str:
    return (
        f"\n\n{_TOTAL}\n\n"
        "asked = list(policy.parameters())\n"
        "before = total(sample)\n"
        "grads = torch.autograd.grad(before, asked, allow_unused=True)\n"
        "size = sum(float(g.pow(2).sum()) for g in grads if g is not None)\n"
        "with torch.no_grad():\n"
        "    for one, grad in zip(asked, grads):\n"
        "        if grad is not None:  # a step that should lower the loss by a hundredth\n"
        "            one -= 0.01 * abs(before.item()) / size * grad\n"
        "after = total(sample)\n"
        'print("the loss:                              ", before.item())\n'
        'print("the same behind a step down its slope: ", after.item())\n'
        "sys.exit(after.item() >= before.item())\n"
    )


_ALONE = ("with the first segment as it is", "with another first segment")
_OTHERS = ("with the other segments as they are", "with others")
_NEXT_OBSERVED = ("with the next observation at the end", "with another one")
_LATER = "(segment == 1).nonzero().flatten()[-1:]"
_EARLY = "(segment == 1).nonzero().flatten()[:1]"

SHAPES: dict[str, Callable[[], list[Shape]]] = {
    "LS701": lambda: [
        Shape(
            _asks_terms, _terms, mended="the next state gets the start flags of the root",
        ),
        _gradients("segment == 1", "segment != 1", _ALONE),
        _gradients("segment != 1", "segment == 1", _OTHERS),
    ],
    "LS702": lambda: [
        Shape(
            _asks_sample, _ratio,
            ("log-probability in the batch", "that of the policy, whose weights are the same"),
        )
    ],
    "LS703": lambda: [
        _gradients(
            _EARLY, _LATER,
            ("gradient of the loss at a later observation", "with another first observation"),
            should_differ=True,
        )
    ],
    "LS704": lambda: [
        _totals(_reordered, ("loss of the batch", "of the same slices in another order"))
    ],
    "LS705": lambda: [
        Shape(_asks_loss, _rewritten, ("entry of the batch before the loss", "behind it")),
        Shape(_asks_loss, _again, ("loss of the batch", "the second time")),
    ],
    "LS706": lambda: [_raises("loss", "loss(sample)")],
    "VL601": lambda: [
        _estimates(lambda parts: _moved(parts, "segment == 1"), "segment != 1", _ALONE),
        _estimates(lambda parts: _moved(parts, "segment != 1"), "segment == 1", _OTHERS),
    ],
    "VL602": lambda: [
        Shape(_asks_estimate_anew, _consistent, ("next value of a step", "value of the next step"))
    ],
    "VL603": lambda: [
        _estimates(_at_ends, "ends", _NEXT_OBSERVED, ending="terminated"),
        _estimates(
            lambda parts: _moved(parts, "segment != 1"), "segment == 1",
            ("target with the next episode as it is", "with another one"),
            ending="truncated",
        ),
        _totals(_at_ends, _NEXT_OBSERVED, ending="terminated"),
    ],
    "VL604": lambda: [
        _estimates(
            _last_next, "last", ("target", "with another next observation"), should_differ=True
        ),
        _estimates(
            _first_states, "rows", ("target", "with another stored state"), should_differ=True
        ),
    ],
    "VL605": lambda: [_raises("estimator", "estimate(sample)")],
    "GR801": lambda: [
        _gradients(
            _LATER, _EARLY,
            ("gradient of the loss at the first observation", "with another later one"),
            should_differ=True,
        )
    ],
    "GR802": lambda: [
        Shape(
            _asks_loss, _not_finite,
            ("numbers of a gradient that are not finite, expected", "found"),
        )
    ],
    "GR803": lambda: [Shape(_asks_loss, _without_gradient)],
    "GR804": lambda: [Shape(_asks_loss, _does_not_learn)],
}  # fmt: skip
