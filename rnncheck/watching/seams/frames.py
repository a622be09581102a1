"""Frames of the user's: which are on the stack, what they were given, whose they are."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from tensordict import TensorDictBase
from torch import nn

from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.watching.forms.structures import LEAVES

_MOST_FRAMES = 40  # of a stack that are looked at: a training loop is seldom deeper


def their_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The user's frames on the stack, innermost first."""
    count = 0
    while frame is not None and count < _MOST_FRAMES:
        if is_user_file(frame.f_code.co_filename):
            yield frame
        frame, count = frame.f_back, count + 1


def depth_of(frame: FrameType | None) -> int:
    """How many frames there are from the outermost one to this."""
    count = 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


def is_tensordict(value: Any) -> bool:
    """Told at once of what most calls are on."""
    return type(value) not in LEAVES and isinstance(value, TensorDictBase)


def batches_in(frame: FrameType) -> dict[str, TensorDictBase]:
    """What the frame holds that may be a batch: several steps of something."""
    return {
        name: value
        for name, value in frame.f_locals.items()
        if type(value) not in LEAVES
        and isinstance(value, TensorDictBase)
        and value.batch_dims
        and value.numel() > 1
    }


def frame_arguments(frame: FrameType) -> dict[str, Any]:
    code, held = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: held[name] for name in names if name in held}


def method_of(code: CodeType, arguments: dict[str, Any]) -> Any:
    """The bound method that the code is, or the module for its ``forward``."""
    owner = owner_of(code, arguments)
    return None if owner is None else method_in(owner, code)


def method_in(owner: Any, code: CodeType) -> Any:
    """The same of the object whose method it is."""
    forward = code.co_name == "forward" and isinstance(owner, nn.Module)
    return owner if forward else getattr(owner, code.co_name)


def function_with(code: CodeType, names: dict[str, Any]) -> FunctionType | None:
    """The function with the code and the globals ``names``: one of these, else whatever object
    there is."""
    named = names.get(code.co_name)
    if isinstance(named, FunctionType) and named.__code__ is code:
        return named
    made = [one for one in gc.get_referrers(code) if isinstance(one, FunctionType)]
    return next((one for one in made if one.__globals__ is names), None)


def decorated_with(code: CodeType, names: dict[str, Any]) -> Any:
    """The function as the script calls it: with the decorators that it has among ``names``, which
    may set a mode for it."""
    named = names.get(code.co_name)
    inner = inspect.unwrap(named) if callable(named) else None
    return named if getattr(inner, "__code__", None) is code else function_with(code, names)


def _is_plain_method(code: CodeType, owner: Any) -> bool:
    """Told at once of what most methods are: a function of the class, in no decorator."""
    name = code.co_name
    for kind in type(owner).__mro__:
        found = kind.__dict__.get(name)
        if found is not None:
            is_method = type(found) is FunctionType and found.__code__ is code
            return is_method and name not in getattr(owner, "__dict__", {})
    return False


def owner_of(code: CodeType, arguments: dict[str, Any]) -> Any:
    """The object whose method the code is, decorated or not."""
    owner = next(iter(arguments.values()), None)
    if _is_plain_method(code, owner):
        return owner
    bound = getattr(owner, code.co_name, None) if owner is not None else None
    if bound is None or getattr(bound, "__self__", None) is not owner:
        return None
    inner = inspect.unwrap(getattr(bound, "__func__", bound))
    return owner if getattr(inner, "__code__", None) is code else None
