"""The forms in which a spec may be written, brought into the one form of the models."""

from __future__ import annotations

import difflib
from typing import Any

from rnncheck.errors import did_you_mean
from rnncheck.spec.fields import Strict
from rnncheck.spec.model import (
    AdvantageSpec,
    Component,
    EnvSpec,
    KeyPath,
    LossSpec,
    PassSpec,
    ReplaySpec,
    Spec,
)
from rnncheck.spec.names import (
    COMPONENT_FORMS,
    FACTORY_FORM,
    USE_FORM,
    Complaint,
    check_factory,
    check_use,
)
from rnncheck.spec.problems import Problems, dotted_path, listing, shown
from rnncheck.spec.read import Document
from rnncheck.spec.settings import BenchSpec, GateSpec, MemorySpec, VerifySpec

SECTIONS: dict[str, type[Component]] = {
    "env": EnvSpec,
    "training_pass": PassSpec,
    "collect": Component,
    "replay": ReplaySpec,
    "batch": Component,
    "advantage": AdvantageSpec,
    "loss": LossSpec,
}
NETWORKS = ("policy", "critic")
SETTINGS: dict[str, type[Strict]] = {
    "verify": VerifySpec,
    "bench": BenchSpec,
    "memory": MemorySpec,
    "gate": GateSpec,
}
VERSION = 1
TOP_KEYS = tuple(field.alias or name for name, field in Spec.model_fields.items())
NETWORK_KEYS = ("modules", "factory", "weights")
NETWORK_FORMS = f"[ClassName, {USE_FORM}, ...], {{modules: [...], weights: file}} or {FACTORY_FORM}"
# Of a loss and a training pass: what a batch is handed to, instead of what makes the part.
FUNCTION = "function"
FUNCTION_FORM = '{function: "package.module:function"}'
COMPONENT_LISTS = ("transforms",)  # reserved keys that hold a list of components
COMPONENT_PARTS = ("storage", "sampler", "writer", "target_update")  # ... or one component
DEFAULT_USE = {"replay": "TensorDictReplayBuffer"}

_STAND_IN = {"use": "Nothing"}  # keeps pydantic quiet about a component that is reported already
# How alike a key and a reserved one must be to count as its misspelling: one wrong letter of n
# leaves (n - 1) / n, so that one slip counts from 5 letters on; shorter keys are alike by chance.
_NEAR = 0.8
_LONG_ENOUGH = 4  # letters of a reserved key, below which nothing counts as its misspelling
_TORCHRL_KEYS = {"transform"}  # an argument of TorchRL's buffers beside our `transforms`


def reserved(model: type[Component]) -> tuple[str, ...]:
    """The keys of a component that are the spec's own and no arguments."""
    return tuple(name for name in model.model_fields if name not in Component.model_fields)


def component_model(at: KeyPath) -> type[Component] | None:
    """The model of the component that may stand at ``at``; None where no component may."""
    if len(at) == 1:
        return SECTIONS.get(str(at[0]))
    if len(at) == 3 and isinstance(at[2], int):
        in_network = at[0] in NETWORKS and at[1] == "modules"
        return Component if in_network or _reserved_at(at[:2], COMPONENT_LISTS) else None
    return Component if len(at) == 2 and _reserved_at(at, COMPONENT_PARTS) else None


def _reserved_at(at: KeyPath, names: tuple[str, ...]) -> bool:
    model = SECTIONS.get(str(at[0]))
    return model is not None and at[1] in reserved(model) and at[1] in names


def name_network_lists(document: Document) -> None:
    """Write ``policy: [...]`` as ``policy: {modules: [...]}``, the places with it."""
    for key in NETWORKS:
        if isinstance(document.data.get(key), list):
            document.data[key] = {"modules": document.data[key]}
            below = [at for at in document.places if at[0:1] == (key,) and len(at) > 1]
            moved = {(key, "modules", *at[1:]): document.places.pop(at) for at in below}
            document.places.update(moved)
            unread = {at for at in document.unread if at[0:1] == (key,) and len(at) > 1}
            document.unread -= unread
            document.unread |= {(key, "modules", *at[1:]) for at in unread}


def shape(data: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """The mapping that ``Spec`` validates; what does not fit is added to ``problems``."""
    shaper = _Shaper(problems)
    shaper.version(data)
    result = _without_nulls(data, TOP_KEYS) | ({"schema": VERSION} if "schema" in data else {})
    for key, model in SECTIONS.items():
        if key in result:
            result[key] = shaper.component(result[key], (key,), model)
    for key in NETWORKS:
        if key in result:
            result[key] = shaper.network(result[key], (key,))
    for key, settings in SETTINGS.items():
        if isinstance(result.get(key), dict):
            result[key] = _without_nulls(result[key], tuple(settings.model_fields))
    return result


def _without_nulls(data: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Null means absent for the keys that exist; an unknown key stays, to be reported."""
    return {key: value for key, value in data.items() if value is not None or key not in known}


class _Shaper:
    """Brings components and networks into form, one mistake at a time into ``problems``."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def version(self, data: dict[str, Any]) -> None:
        """Refuse another version of the format before its keys are judged by this one's rules;
        what is no version is a mistake like any other."""
        version = data.get("schema")
        if version is not None and (type(version) is not int or version != VERSION):
            message = f"schema must be {VERSION}, not {shown(version)}"
            self.problems.add(("schema",), message, hint="this is the version that rnncheck reads")
            if type(version) is int:
                self.problems.raise_any()

    def complain(self, at: KeyPath, complaint: Complaint) -> None:
        at = (*at, complaint.key) if complaint.key else at
        self.problems.add(
            at,
            f"{dotted_path(at)}: {complaint.message}",
            accepted=complaint.accepted,
            hint=complaint.hint,
        )

    def component(
        self, raw: Any, at: KeyPath, model: type[Component] = Component
    ) -> dict[str, Any]:
        """One component in any of its forms."""
        complaint: Complaint | None
        if isinstance(raw, str):
            raw = {"use": raw}
        if isinstance(raw, dict):
            raw = self._with_default(raw, at)
            complaint = self._choice(raw, at, model)
        else:
            complaint = Complaint(f"expected a component, not {shown(raw)}", COMPONENT_FORMS)
        if complaint is not None:
            self.complain(at, complaint)
            if not isinstance(raw, dict):
                return dict(_STAND_IN)
            raw = {**raw, "factory": None, **_STAND_IN}  # its other keys may be wrong too
            raw.pop(complaint.key, None)
        self._misspelt(raw, at, model)
        return self._split(raw, at, model)

    def _with_default(self, raw: dict[str, Any], at: KeyPath) -> dict[str, Any]:
        default = DEFAULT_USE.get(dotted_path(at))
        named = raw.get("use") is not None or raw.get("factory") is not None
        return raw if default is None or named else {"use": default, **raw}

    def _choice(self, raw: dict[str, Any], at: KeyPath, model: type[Component]) -> Complaint | None:
        use, factory = raw.get("use"), raw.get("factory")
        if FUNCTION in reserved(model) and raw.get(FUNCTION) is not None:
            return self._function(raw)
        if model is PassSpec:
            return Complaint("a training pass is a function of your own", FUNCTION_FORM)
        if use is not None and factory is not None:
            return Complaint("both `use` and `factory` are given", "one of the two")
        if at == ("batch",) and factory is None:
            return Complaint("a batch is made by a function of your own", FACTORY_FORM)
        if use is not None:
            return check_use(use, shown(use))
        if factory is not None:
            return check_factory(factory, shown(factory))
        return self._nameless(raw, reserved(model))

    def _function(self, raw: dict[str, Any]) -> Complaint | None:
        """A function that is the loss itself."""
        for other in ("use", "factory"):
            if raw.get(other) is not None:
                return Complaint(f"both `function` and `{other}` are given", "one of the two")
        return check_factory(raw[FUNCTION], shown(raw[FUNCTION]), FUNCTION)

    def _nameless(self, raw: dict[str, Any], own: tuple[str, ...]) -> Complaint:
        """Neither `use` nor `factory`: guess which habit led there."""
        message = "neither `use` nor `factory` is given"
        names = [key for key in raw if key not in own]
        for key in names:
            hint = did_you_mean(key, ("use", "factory"))
            if hint:
                return Complaint(message, COMPONENT_FORMS, hint, key)
        if len(raw) == 1 and isinstance(raw[names[0]] if names else None, dict):
            hint = f"write {{use: {names[0]}, ...}} with its arguments beside it"
            return Complaint(message, COMPONENT_FORMS, hint)
        hint = "write {use: GymEnv, env_name: ...}" if "env_name" in raw else ""
        return Complaint(message, COMPONENT_FORMS, hint)

    def _misspelt(self, raw: dict[str, Any], at: KeyPath, model: type[Component]) -> None:
        """A reserved key with a slip would silently become an argument; a factory may mean it."""
        own = reserved(model)
        if raw.get("use") is None:
            return
        for key in raw:
            if key in own or (key in _TORCHRL_KEYS and model is ReplaySpec):
                continue
            close = difflib.get_close_matches(
                key, [k for k in own if len(k) >= _LONG_ENOUGH], 1, _NEAR
            )
            if close:
                here = (*at, key)
                hint = f"did you mean {close[0]!r}?"
                message = f"unknown key {dotted_path(here)!r}"
                self.problems.add(here, message, accepted=listing(("use", *own)), hint=hint)

    def _split(self, raw: dict[str, Any], at: KeyPath, model: type[Component]) -> dict[str, Any]:
        own = reserved(model)
        result: dict[str, Any] = {"args": {}, "at": at}
        for key, value in raw.items():
            if key in ("use", "factory"):
                result[key] = value
            elif key == FUNCTION and key in own and value is not None:
                result |= {key: value, "factory": value}
            elif key not in own:
                result["args"][key] = value
            elif value is not None:
                result[key] = self._own(key, value, (*at, key))
        return result

    def _own(self, key: str, value: Any, at: KeyPath) -> Any:
        if key in COMPONENT_LISTS:
            return self.components(value, at)
        return self.component(value, at) if key in COMPONENT_PARTS else value

    def components(self, raw: Any, at: KeyPath) -> list[dict[str, Any]]:
        """A list of components."""
        if not isinstance(raw, list):
            message = f"must be a list, not {shown(raw)}"
            self.complain(at, Complaint(message, f"[{COMPONENT_FORMS}]"))
            return []
        return [self.component(item, (*at, index)) for index, item in enumerate(raw)]

    def network(self, raw: Any, at: KeyPath) -> dict[str, Any]:
        """A policy or critic."""
        empty: dict[str, Any] = {"modules": [], "at": at}
        if not isinstance(raw, dict):
            message = f"expected modules or a factory, not {shown(raw)}"
            hint = f"write {dotted_path(at)}: [{raw}]" if isinstance(raw, str) else ""
            self.complain(at, Complaint(message, NETWORK_FORMS, hint))
            return empty
        raw = {key: value for key, value in raw.items() if value is not None}
        if "modules" in raw and "factory" in raw:
            self.complain(at, Complaint("both `modules` and `factory` are given", "one of the two"))
            return empty
        if "factory" in raw:
            return self._made_by_factory(raw, at)
        return self._made_of_modules(raw, at)

    def _made_by_factory(self, raw: dict[str, Any], at: KeyPath) -> dict[str, Any]:
        rest = {key: value for key, value in raw.items() if key != "weights"}
        made: dict[str, Any] = {"factory": self.component(rest, at), "at": at}
        return made | ({"weights": raw["weights"]} if "weights" in raw else {})

    def _made_of_modules(self, raw: dict[str, Any], at: KeyPath) -> dict[str, Any]:
        for key in [key for key in raw if key not in NETWORK_KEYS]:
            self._unknown_network_key(key, at)
        modules = raw.get("modules")
        if modules is None:
            if all(key in NETWORK_KEYS for key in raw):
                message = "neither `modules` nor `factory` is given"
                self.complain(at, Complaint(message, NETWORK_FORMS))
        elif modules == []:
            self.complain((*at, "modules"), Complaint("the list is empty", NETWORK_FORMS))
        else:
            modules = self.components(modules, (*at, "modules"))
        weights = {"weights": raw["weights"]} if "weights" in raw else {}
        return {"modules": modules or [], "at": at, **weights}

    def _unknown_network_key(self, key: str, at: KeyPath) -> None:
        here = (*at, key)
        hint = did_you_mean(key, NETWORK_KEYS)
        if not hint and key == "use":
            hint = f"a {dotted_path(at)} is a list: write {dotted_path(at)}: [{USE_FORM}]"
        message = f"unknown key {dotted_path(here)!r}"
        self.problems.add(here, message, accepted=listing(NETWORK_KEYS), hint=hint)
