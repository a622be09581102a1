"""What was seen of a loop over a plain env as the forms of a saved run: how its envs are made, who
acts in them, what is trained on, and the call on it."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace
from types import CodeType
from typing import Any

import gymnasium
import torch
from gymnasium.envs.registration import EnvSpec
from torchrl.envs import EnvBase

from rnncheck.watching.envs import env_copy
from rnncheck.watching.forms.acted_again import ActedAgain
from rnncheck.watching.forms.beside_calls import BesideCalls
from rnncheck.watching.forms.flat_env import WholeEnv
from rnncheck.watching.forms.held_states import InsideOf
from rnncheck.watching.forms.last_calls import LastCall, LastEntry
from rnncheck.watching.forms.plain_calls import PlainCall, Slot, ToldCall, held_states
from rnncheck.watching.forms.plain_loss import MadeBeside, rollout_loss
from rnncheck.watching.forms.plain_pass import CallPass, SeenPass, Spread
from rnncheck.watching.forms.plain_policy import PlainEnv, PlainPolicy
from rnncheck.watching.forms.returns_made import ReturnsMade
from rnncheck.watching.forms.sent_actions import AS_IT_IS, CLIPPED
from rnncheck.watching.forms.shown_entries import ShownAs, ShownEntry
from rnncheck.watching.forms.storages import (
    HeldPart,
    OfEpisode,
    OfSteps,
    PerRow,
    PieceStates,
    Reach,
    Records,
    RowLengths,
    RowRecords,
    Storage,
    Tail,
    ZeroState,
)
from rnncheck.watching.saving.env_forms import (
    Decodes,
    Encodes,
    maker_form,
    shown_again,
    shown_forms,
)
from rnncheck.watching.saving.forms import DTYPES
from rnncheck.watching.saving.import_paths import CannotKeep

Node = dict[str, Any]
_WRAPPERS = "gymnasium.wrappers"
_RECORDS, _TAIL, _PER_ROW, _ZEROS = "records", "tail", "per row", "zero state"
_LENGTHS = "lengths of rows"
_PIECES, _STEPS = "states of pieces", "some steps"
_ROW_RECORDS = "records of each env"
_NAMED, _LAST, _RETURNS = "beside each step", "behind the last", "returns"


# --- envs ----------------------------------------------------------------------------------------


def plain_env_node(encoder: Encodes, env: PlainEnv) -> Node:
    """How its envs are made."""
    makers = [_maker_form(encoder, make) for make in env.makers]
    states = [[_key_form(key), list(to), _dtype(of)] for key, (to, of) in env.states.items()]
    return {
        "kind": "plain env",
        "makers": makers,
        "states": encoder.form(states),
        "batched": env.batched,
        "way": env.way,
        "part": encoder.form(env.part),
        "before": encoder.form(shown_forms(env.before)),
        "shown": encoder.form(None if env.shown is None else _entry_forms(env.shown)),
        "begins": encoder.form([[_key_form(key), one] for key, one in env.begins.items()]),
    }


def _entry_forms(shown: ShownAs) -> list[Any]:
    return [
        [name, [list(p) for p in one.paths], list(one.shape), one.dtype, list(one.numbers)]
        for name, one in shown.entries.items()
    ]


def _entries_again(forms: Any) -> ShownAs | None:
    if forms is None:
        return None
    return ShownAs(
        {
            str(name): ShownEntry(
                tuple(map(tuple, paths)), tuple(shape), str(kind), *map(tuple, numbers)
            )
            for name, paths, shape, kind, *numbers in forms
        }
    )


def _maker_form(encoder: Encodes, make: Any) -> Any:
    """A function by its name or its place, else an env like that it makes."""
    if isinstance(make, WholeEnv):
        return encoder.form(make.env)
    if isinstance(make, functools.partial) and make.func is env_copy:
        return encoder.form(make.args[0])
    return maker_form(encoder, make)


def plain_env_again(decoder: Decodes, node: Node, _number: int) -> PlainEnv:
    """What makes envs of TorchRL's out of envs like those."""
    makers = tuple(_maker(decoder.part(one)) for one in node["makers"])
    told = decoder.part(node["states"])
    states = {_key(key): (tuple(shape), DTYPES[of]) for key, shape, of in told}
    before = shown_again(decoder.part(node["before"]))
    part, shown = decoder.part(node["part"]), _entries_again(decoder.part(node["shown"]))
    way = str(node.get("way", CLIPPED if node.get("clips") else AS_IT_IS))  # older files tell clips
    begins = (
        {_key(key): one for key, one in decoder.part(node["begins"])} if "begins" in node else {}
    )
    made = PlainEnv(makers, states, bool(node["batched"]), part, before, shown, way)
    return replace(made, begins=begins)


def _maker(made: Any) -> Any:
    if isinstance(made, EnvBase):
        return WholeEnv(made)
    return functools.partial(env_copy, made) if isinstance(made, gymnasium.Env) else made


def registered_node(encoder: Encodes, env: gymnasium.Env[Any, Any]) -> Node:
    """An env by its name in gymnasium's registry, where that makes one like it again; one of a
    class alone by that and its state."""
    spec = env.spec
    if spec is None:
        return encoder.object(env)
    given: list[Any] = [
        spec.id,
        dict(spec.kwargs),
        spec.max_episode_steps,
        [[one.entry_point, one.kwargs] for one in spec.additional_wrappers],
    ]
    if _classes(_registered(*given)) != _classes(env):
        raise CannotKeep(f"a {spec.id} that its name and arguments do not make again")
    return {"kind": "registered env", "given": encoder.form(given)}


def registered_again(decoder: Decodes, node: Node, _number: int) -> gymnasium.Env[Any, Any]:
    """The env of that name."""
    return _registered(*decoder.part(node["given"]))


def vector_node(encoder: Encodes, env: Any) -> Node:
    """Envs side by side by what makes them, without wrappers around all of them: what a loss asks
    them for are their spaces."""
    inner = env.unwrapped
    makers = getattr(inner, "env_fns", None)
    if makers is None:
        raise CannotKeep(f"a {type(inner).__name__}, which does not tell what its envs are")
    return {"kind": "vector env", "of": [_maker_form(encoder, make) for make in makers]}


def vector_again(decoder: Decodes, node: Node, _number: int) -> gymnasium.vector.SyncVectorEnv:
    """The same envs, stepped one after the other."""
    return gymnasium.vector.SyncVectorEnv([_maker(decoder.part(one)) for one in node["of"]])


def _registered(
    name: str, kwargs: dict[str, Any], steps: int | None, wrappers: list[Any]
) -> gymnasium.Env[Any, Any]:
    known = gymnasium.spec(name)  # made of the registry's entry point, whatever a file says
    made = gymnasium.make(_named(known, kwargs, steps))
    for entry, given in wrappers:
        made = _wrapper(str(entry), given)(made, **given)
    return made


def _named(known: EnvSpec, kwargs: dict[str, Any], steps: int | None) -> EnvSpec:
    found = copy.deepcopy(known)
    found.kwargs, found.max_episode_steps = dict(kwargs), steps
    return found


def _wrapper(entry: str, given: Any) -> type[gymnasium.Wrapper[Any, Any, Any, Any]]:
    """A class of gymnasium's own wrappers."""
    module, _, name = entry.partition(":")
    found = getattr(gymnasium.wrappers, name, None)
    is_one = isinstance(found, type) and issubclass(found, gymnasium.Wrapper)
    if not (module.startswith(_WRAPPERS) and is_one) or not isinstance(given, dict):
        raise CannotKeep(f"an env in a {name}, which is none of gymnasium's own wrappers")
    return found  # type: ignore[return-value]  # is_one


def _classes(env: Any) -> list[type]:
    """The env's wrappers and the env itself, from the outside in."""
    found = [type(env)]
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        found.append(type(env))
    return found


# --- calls ---------------------------------------------------------------------------------------


def inside_node(encoder: Encodes, held: InsideOf) -> Node:
    """What a network held that may be a state."""
    return {"kind": "inside of", "of": encoder.form(dict(vars(held)))}


def inside_again(decoder: Decodes, node: Node, _number: int) -> InsideOf:
    """The same."""
    return InsideOf(**decoder.part(node["of"]))


def plain_policy_node(encoder: Encodes, policy: PlainPolicy) -> Node:
    """The function that acts, and what its arguments and results are."""
    call, told = _plain(policy.call), policy.told
    slots = [
        [[list(path), _slot_form(slot)] for path, slot in leaves.items()]
        for leaves in (told.arguments, told.results)
    ]
    action = None if told.action is None else [list(told.action[0]), _slot_form(told.action[1])]
    acts = [told.rows, action]
    parts = [call.function, call.arguments, slots, acts, call.owner, call.before]
    trains = encoder.form([[path, on] for path, on in policy.trains.items()])
    return {"kind": "plain policy", "of": [encoder.form(one) for one in parts], "trains": trains}


def plain_policy_again(decoder: Decodes, node: Node, _number: int) -> PlainPolicy:
    """The same function as a policy."""
    function, arguments, slots, acts, *owned = (decoder.part(one) for one in node["of"])
    rows, action = acts
    chosen = None if action is None else (tuple(action[0]), _slot(action[1]))
    taken, given = ({tuple(path): _slot(one) for path, one in leaves} for leaves in slots)
    told = ToldCall(taken, given, int(rows), chosen)
    policy = PlainPolicy(_call(function, arguments, *owned), told)
    # Files that are older have none.
    policy.trains = dict(decoder.part(node["trains"])) if "trains" in node else {}
    return policy


def call_pass_node(encoder: Encodes, over: CallPass) -> Node:
    """The call on a training batch."""
    seen = over.seen
    steps = [[list(path), _spread_form(one)] for path, one in seen.steps.items()]
    states = [[list(path), _slot_form(one)] for path, one in seen.states.items()]
    call = _plain(seen.call)
    lengths, nones = ([list(path) for path in paths] for paths in (seen.lengths, seen.nones))
    parts = (
        *(call.function, call.arguments, steps, states, seen.batch, dict(over.parts)),
        *(lengths, nones, call.owner, held_states(call)),
    )
    return {
        "kind": "call pass",
        "of": [encoder.form(one) for one in parts],
        "time_first": seen.time_first,
    }


def call_pass_again(decoder: Decodes, node: Node, _number: int) -> CallPass:
    """The same call."""
    function, arguments, steps, states, batch, parts, *more = map(decoder.part, node["of"])
    lengths, nones, owner, before = more
    seen = SeenPass(
        _call(function, arguments, owner, before),
        {tuple(path): _spread(one) for path, one in steps},
        {tuple(path): _slot(one) for path, one in states},
        bool(node["time_first"]),
        batch,
        tuple(map(tuple, lengths)),
        tuple(map(tuple, nones)),
    )
    return CallPass(seen, parts)


def rollout_loss_node(
    encoder: Encodes, lines: Any, held: Any, acts: ActedAgain | None, beside: Any
) -> Node:
    """The lines behind the steps, and which of their variables hold what was collected."""
    told = [
        [name, value, [[list(path), _part_form(one)] for path, one in parts.items()]]
        for name, value, parts in held
    ]
    again = None if acts is None else [acts.policy, acts.cut]
    calls = [_beside_form(one) for one in beside]
    return {"kind": "rollout loss", "of": [encoder.form(x) for x in (lines, told, again, calls)]}


def rollout_loss_again(decoder: Decodes, node: Node, _number: int) -> Any:
    """The same lines as a loss."""
    lines, held, again, calls = (decoder.part(one) for one in node["of"])
    names = {name: value for name, value, _ in held}
    parts = {(name, *path): _part(one) for name, _, told in held for path, one in told}
    acts = None if again is None else ActedAgain(*again)
    return rollout_loss(lines, names, parts, acts, [_beside(*one) for one in calls])


def _beside_form(made: MadeBeside) -> list[Any]:
    if isinstance(made, ReturnsMade):
        return [_RETURNS, made.discount, made.over]
    if isinstance(made, LastCall):
        entries = [[_key_form(k), _key_form(e.entry), e.fresh] for k, e in made.sources.items()]
        return [_LAST, made.policy, entries]
    return [_NAMED, made.policy]


def _beside(kind: str, *given: Any) -> MadeBeside:
    if kind == _RETURNS:
        return ReturnsMade(float(given[0]), bool(given[1]))
    if kind == _LAST:
        told = {_key(k): LastEntry(_key(entry), bool(fresh)) for k, entry, fresh in given[1]}
        return LastCall(given[0], told)
    return BesideCalls(given[0])


def _plain(call: PlainCall) -> PlainCall:
    """Raises CannotKeep."""
    if call.cast is not None:
        raise CannotKeep("a network that is called under torch.autocast")
    return call


def _call(
    function: Any, arguments: dict[str, Any], owner: Any = None, before: Any = None
) -> PlainCall:
    return PlainCall(_code(function), function, arguments, owner=owner, before=before or {})


def _code(function: Any) -> CodeType:
    made = function if hasattr(function, "__code__") else type(function).forward
    code: CodeType = made.__code__
    return code


# --- entries -------------------------------------------------------------------------------------


def _key_form(key: Any) -> list[str]:
    return [key] if isinstance(key, str) else list(key)


def _key(form: list[str]) -> tuple[str, ...]:
    return tuple(form)


def _dtype(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def _slot_form(slot: Slot) -> list[Any]:
    none = None if slot.none is None else list(slot.none)
    scale = None if slot.scale is None else list(slot.scale)
    held = [slot.axis, list(slot.rest), _dtype(slot.dtype), slot.of_what, none, scale]
    return [_key_form(slot.key), *held]


def _slot(form: list[Any]) -> Slot:
    key, axis, rest, dtype, of_what, none, scale = form
    way = None if none is None else tuple(none)
    turned = None if scale is None else (float(scale[0]), float(scale[1]))
    return Slot(_key(key), axis, tuple(rest), DTYPES[dtype], of_what, way, turned)


def _spread_form(spread: Spread) -> list[Any]:
    scale = None if spread.scale is None else list(spread.scale)
    held = [_dtype(spread.dtype), spread.of_what, spread.listed, scale]
    return [_key_form(spread.key), spread.flat, list(spread.rest), *held]


def _spread(form: list[Any]) -> Spread:
    key, flat, rest, dtype, of_what, listed, scale = form
    turned = None if scale is None else (float(scale[0]), float(scale[1]))
    return Spread(_key(key), flat, tuple(rest), DTYPES[dtype], of_what, listed, turned)


def _part_form(one: HeldPart) -> list[Any]:
    if isinstance(one, Storage):
        return _storage_form(one)
    if isinstance(one, Records):
        columns = [[list(path), _storage_form(held)] for path, held in one.columns.items()]
        return [_RECORDS, columns, one.like]
    if isinstance(one, RowRecords):
        columns = [[list(path), _storage_form(held)] for path, held in one.columns.items()]
        return [_ROW_RECORDS, columns, one.like, one.of_steps]
    if isinstance(one, Tail):
        return [_TAIL, one.before, _storage_form(one.steps)]
    if isinstance(one, PerRow):
        return [_PER_ROW, one.value, one.of_what]
    if isinstance(one, RowLengths):
        return [_LENGTHS, list(one.shape), _dtype(one.dtype), one.more, one.of_what]
    if isinstance(one, ZeroState):
        return [_ZEROS, _slot_form(one.slot)]
    if isinstance(one, PieceStates):
        return [_PIECES, _slot_form(one.slot), one.pieces]
    if isinstance(one, OfSteps) and not isinstance(one, OfEpisode):
        reach = [one.reach.begin, one.reach.length, one.reach.to_the_end]
        return [_STEPS, reach, _part_form(one.part)]
    raise CannotKeep("a loss with other values than the script's")


def _part(form: list[Any]) -> HeldPart:
    if form[0] == _TAIL:
        return Tail(form[1], _storage(form[2]))
    if form[0] == _ROW_RECORDS:
        return RowRecords({tuple(path): _storage(held) for path, held in form[1]}, *form[2:])
    if form[0] == _PER_ROW:
        return PerRow(form[1], form[2])
    if form[0] == _LENGTHS:
        return RowLengths(tuple(form[1]), DTYPES[form[2]], *form[3:])
    if form[0] == _ZEROS:
        return ZeroState(_slot(form[1]))
    if form[0] == _PIECES:
        return PieceStates(_slot(form[1]), form[2])
    if form[0] == _STEPS:
        return OfSteps(Reach(*form[1]), _storage(form[2]))
    if form[0] != _RECORDS:
        return _storage(form)
    return Records({tuple(path): _storage(held) for path, held in form[1]}, form[2])


def _storage_form(one: Storage) -> list[Any]:
    slot = None if one.slot is None else _slot_form(one.slot)
    scale, edge = (None if held is None else list(held) for held in (one.scale, one.edge))
    held = [list(one.shape), _dtype(one.dtype), one.listed, one.at, slot, one.of_what]
    return [
        _key_form(one.key),
        *held,
        one.rows_first,
        scale,
        one.longer,
        one.late,
        edge,
        one.graphed,
        one.fresh,
        one.rows,
        one.added,
        one.hot,
        one.ahead,
    ]


def _storage(form: list[Any]) -> Storage:
    key, shape, dtype, listed, at, slot, of_what, rows_first, scale, *ends = form
    made = None if slot is None else _slot(slot)
    turned = None if scale is None else (float(scale[0]), float(scale[1]))
    longer, late, edge, *more = ends
    beside = None if edge is None else tuple(map(float, edge))
    held = (tuple(shape), DTYPES[dtype], listed, at, made, of_what, rows_first, turned)
    return Storage(_key(key), *held, longer, late, beside, *more)
