"""Programs about env and networks before anything is collected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rnncheck.cases.programs.modules import network_of
from rnncheck.cases.programs.parts import ProgramParts
from rnncheck.cases.programs.shape import Shape
from rnncheck.cases.programs.texts import key_code

_READ = """\
env = whole_env()
if "--mended" in sys.argv:
    env = env.append_transform({mending})
known = env.reset().keys(include_nested=True, leaves_only=True)
asked = {asked}
missing = [key for key in asked if key not in known]
print("the networks read:      ", asked)
print("the env's reset gives:  ", [key for key in asked if key in known])
sys.exit(bool(missing))
"""
_FITS = """\
first = whole_env().reset()
STATES = [{states}]
after = policy(first.exclude(*STATES))
one = [(tuple(first[key].shape), str(first[key].dtype)) for key in STATES]
other = [(tuple(after["next", key].shape), str(after["next", key].dtype)) for key in STATES]
print("state of the env's reset:   ", one)
print("state that the policy leaves:", other)
sys.exit(one != other)
"""
_TWICE = """\
env = whole_env()
STATES = [{states}]
one, other = (torch.cat([env.reset()[key].flatten() for key in STATES]) for _ in range(2))
"""
_SHARED = """\
first = whole_env().reset()
STATES = [{states}]
left = policy(first.clone())
one = torch.cat([left["next", key].flatten() for key in STATES])
left = critic(left)
other = torch.cat([left["next", key].flatten() for key in STATES])
"""
_HANDED_ON = """\
first = whole_env().reset()
STATES = [{states}]
one = torch.cat([first[key].flatten() for key in STATES]).float()
first = policy(first)
other = torch.cat([first[key].flatten() for key in STATES]).float().detach()
"""
_SPECS = """\
env = whole_env()
try:
    check_env_specs(env)
except Exception as error:
    print("expected of check_env_specs: nothing")
    print("found:", type(error).__name__, str(error).splitlines()[0])
    sys.exit(1)
"""
_FLAGS = """\
env = whole_env()
steps = env.rollout(60, break_when_any_done=False)
begins = torch.ones_like(steps["is_init"])
begins[..., 1:, :] = steps["next", "done"][..., :-1, :]
one, other = begins.float(), steps["is_init"].float()
"""
_RAISES = """\
first = whole_env().reset()
try:
    policy(first)
except Exception as error:
    print("expected of the policy on the env's reset: an action")
    print("found:", type(error).__name__, str(error).splitlines()[0])
    sys.exit(1)
"""
_ACTION = """\
env = whole_env()
action = policy(env.reset())[env.action_key]
print("shape of the action that the env reads:", list(env.action_spec.shape))
print("shape of the policy's action:          ", list(action.shape))
sys.exit(action.shape != env.action_spec.shape)
"""
_HISTORIES = """\
OBSERVED = [{observed}]


def first_of_the_second_episode(seed):
    \"\"\"What a reset shows behind some steps of another episode.\"\"\"
    env = whole_env()
    {seeded}(seed)
    env.rollout(8)
    env.set_seed(0)
    first = env.reset()
    return torch.cat([first[key].flatten() for key in OBSERVED]).float()


found = torch.stack([first_of_the_second_episode(seed) for seed in range(6)])
one, other = found[:1].expand_as(found[1:]), found[1:]
"""


def _env(parts: ProgramParts) -> None:
    parts.env()


def _states(parts: ProgramParts) -> str:
    return ", ".join(map(key_code, network_of(parts).states))


def _plain(text: str) -> Callable[[ProgramParts], str]:
    return lambda _: text


def _reads(mending: str, module: str, said: str, *, flags: bool) -> Shape:
    """What the networks read and the reset does not give."""

    def body(parts: ProgramParts) -> str:
        network = network_of(parts)
        asked = ["is_init"] if flags else [key_code(key) for key in network.states]
        parts.writer.uses(module, mending.partition("(")[0])
        named = '["is_init"]' if flags else f"[{', '.join(asked)}]"
        return _READ.format(mending=mending, asked=named)

    return Shape(_env, body, mended=said)


def _of_states(text: str, said: tuple[str, str] | None) -> Shape:
    return Shape(_env, lambda parts: text.format(states=_states(parts)), said)


def _specs() -> Shape:
    def body(parts: ProgramParts) -> str:
        parts.writer.uses("torchrl.envs.utils", "check_env_specs")
        return _SPECS

    return Shape(_env, body)


def _root_states(parts: ProgramParts) -> str:
    key = tuple(parts.case.seen.key.split("."))
    return _HANDED_ON.format(states=key_code(key))


def _histories(seeded: str) -> Shape:
    """Of the actions, or of the env."""

    def body(parts: ProgramParts) -> str:
        observed = ", ".join(map(key_code, network_of(parts).observed))
        return _HISTORIES.format(observed=observed, seeded=seeded)

    return Shape(_env, body, ("first observation behind an episode", "behind another one"))


_TWO_RESETS = ("state of a reset", "state of another reset")

SHAPES: dict[str, Callable[[], list[Shape]]] = {
    "WR102": lambda: [
        _reads("InitTracker()", "torchrl.envs", "the env has an InitTracker", flags=True)
    ],
    "WR103": lambda: [
        _reads(
            "get_primers_from_module(policy)", "torchrl.modules", "the env has the state primers",
            flags=False,
        )
    ],
    "WR104": lambda: [_of_states(_FITS, None)],
    "WR105": lambda: [
        replace(
            _of_states(_TWICE, _TWO_RESETS),
            mended="the primer is not random",
            rewritten=("random=True", 'random="--mended" not in sys.argv'),
        ),
        _of_states(_TWICE, _TWO_RESETS),
    ],
    "WR106": lambda: [
        _of_states(_SHARED, ("state that the policy leaves", "the same behind the critic"))
    ],
    "WR107": lambda: [
        Shape(
            _env, _root_states,
            ("state that a step began with", "state that is recorded with it"),
        )
    ],
    "WR108": lambda: [_specs()],
    "WR109": lambda: [
        Shape(_env, _plain(_FLAGS), ("start flag, expected", "found"))
    ],
    "WR110": lambda: [Shape(_env, _plain(_RAISES))],
    "WR111": lambda: [Shape(_env, _plain(_ACTION))],
    "WR112": lambda: [_histories("torch.manual_seed"), _histories("env.set_seed")],
}  # fmt: skip
