"""How a component may be named, and what to say about a name that cannot be one."""

from __future__ import annotations

import re
from dataclasses import dataclass

_GYM_ID = re.compile(r"^([\w.-]+/)?[\w.-]+-v\d+$")  # CartPole-v1, ALE/Breakout-v5
FACTORY_FORM = '{factory: "package.module:function"}'
USE_FORM = "{use: ClassName, ...}"
COMPONENT_FORMS = f"ClassName, {USE_FORM} or {FACTORY_FORM}"


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a name, what is accepted and what to do."""

    message: str
    accepted: str = ""
    hint: str = ""
    key: str = ""  # the key below the component that is wrong, where it is one


def is_dotted(text: str) -> bool:
    """Whether ``text`` is one Python identifier, or several joined by dots."""
    return all(part.isidentifier() for part in text.split("."))


def check_use(text: object, shown: str) -> Complaint | None:
    """None when ``text`` can be the name of a class."""
    if not isinstance(text, str):
        return Complaint(f"`use` must be the name of a TorchRL class, not {shown}")
    if is_dotted(text):
        return None
    message = f"{shown} cannot be the name of a class"
    if _GYM_ID.match(text):
        hint = f"for a gym environment write {{use: GymEnv, env_name: {text}}}"
        return Complaint(message, COMPONENT_FORMS, hint)
    if ":" in text:
        hint = f'for a function of your own write {{factory: "{text}"}}'
        return Complaint(message, COMPONENT_FORMS, hint)
    if "(" in text:
        hint = "arguments are keys beside `use`, without parentheses"
        return Complaint(message, COMPONENT_FORMS, hint)
    return Complaint(message, COMPONENT_FORMS)


def check_factory(text: object, shown: str, key: str = "factory") -> Complaint | None:
    """None when ``text`` is ``package.module:function``; ``key`` is the one that it stands at."""
    accepted = '"package.module:function"'
    if not isinstance(text, str):
        return Complaint(f"`{key}` must be text, not {shown}", accepted, key=key)
    message = f"{shown} does not name a {key}"
    module, colon, function = text.partition(":")
    if "/" in module or "\\" in module or module.endswith(".py"):
        hint = "name the module, not its file: dots instead of slashes, without .py"
        return Complaint(message, accepted, hint, key)
    if not colon and is_dotted(text) and "." in text:
        head, _, tail = text.rpartition(".")
        return Complaint(message, accepted, f'write "{head}:{tail}"', key)
    if not (colon and is_dotted(module) and is_dotted(function)):
        return Complaint(message, accepted, key=key)
    return None
