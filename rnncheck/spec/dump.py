"""A spec back to the plain data of a file: what ``spec show`` prints and the hash is of."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import re
from typing import Any

from rnncheck.printable import json_text
from rnncheck.spec.fields import Strict
from rnncheck.spec.model import Component, NetworkSpec, Spec
from rnncheck.spec.settings import BudgetSpec

# What a terminal hides or turns around, and a CI takes for the beginning of a command.
_HARMFUL = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f]|::|##")
_BARE_WORD = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)


def plain_spec(spec: Spec) -> dict[str, Any]:
    """The effective spec, defaults filled in, in the forms that the loader reads."""
    return {
        field.alias or name: _plain(getattr(spec, name))
        for name, field in Spec.model_fields.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Component):
        return _component(value)
    if isinstance(value, NetworkSpec):
        return _network(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, BudgetSpec):  # it is the one key that it has
        return {name: _plain(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, Strict):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    return value.isoformat() if isinstance(value, datetime.date) else value


def _component(component: Component) -> dict[str, Any]:
    kind = "use" if component.use is not None else "factory"
    kind = kind if getattr(component, "function", None) is None else "function"
    hidden = {*Component.model_fields, "function"}
    own = [name for name in type(component).model_fields if name not in hidden]
    named = {kind: getattr(component, kind), **_plain(component.args)}
    return named | {name: _plain(getattr(component, name)) for name in own}


def _network(network: NetworkSpec) -> dict[str, Any]:
    if network.factory is not None:
        return {**_component(network.factory), "weights": network.weights}
    return {"modules": _plain(network.modules), "weights": network.weights}


def fingerprint(spec: Spec) -> str:
    """sha256 over the canonical JSON of the effective spec: layout and comments do not enter."""
    text = json.dumps(plain_spec(spec), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def spec_to_json(spec: Spec) -> str:
    """The effective spec as JSON."""
    return json_text(plain_spec(spec), indent=2, nan=True)


def to_yaml(spec: Spec) -> str:
    """The effective spec as YAML that loads to the same spec."""
    return yaml_text(plain_spec(spec))


def yaml_text(plain: Any, *, flow: bool | None = None) -> str:
    """Plain data as YAML; without ``flow`` nothing stands on one line with what it holds."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import SafeRepresenter

    class Quoting(SafeRepresenter):
        """Quotes every text that is not a bare word; ruamel leaves some bare that do not load."""

        def represent_text(self, text: str) -> Any:
            style = None if _BARE_WORD.fullmatch(text) else '"'
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Quoting.add_representer(str, Quoting.represent_text)
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Representer = Quoting
    yaml.sort_base_mapping_type_on_output = False
    yaml.default_flow_style = flow  # None: what holds no further list or mapping is on one line
    yaml.width = 100  # columns: chosen, what an editor shows
    stream = io.StringIO()
    yaml.dump(plain, stream)
    return _HARMFUL.sub(_escaped, stream.getvalue())


def _escaped(found: re.Match[str]) -> str:
    """Inside quotes, where every text that holds such a sign stands, YAML reads it back."""
    return "".join(f"\\u{ord(char):04X}" for char in found[0])
