"""What an LSTMModule or GRUModule is, read from the live module: all that decides which backend can
run it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torchrl.modules import GRUModule, LSTMModule

from rnncheck.pipeline.subject.stock import rnn_of
from rnncheck.results.variant import Variant

RnnKind = Literal["lstm", "gru"]
# Hidden units, padded to a power of two, from which TorchRL's Triton backend tiles them: its own
# `_FWD_TILED_H_MIN`.
TILED_FROM = 512
INTERPRETED_UP_TO = 128  # hidden units: one forward and backward pass stays around a second
# Hidden units of the module that is interpreted in the place of a larger one. Chosen: no power of
# two, so that the kernels' masks are used, and three blocks of 16, so that their loops are.
STANDIN = 48
MODULE_SETTINGS = {  # field of Variant: attribute and argument of LSTMModule and GRUModule
    "backend": "recurrent_backend",
    "recompute": "recurrent_recompute",
    "compute_dtype": "recurrent_compute_dtype",
    "matmul_precision": "recurrent_matmul_precision",
}


@dataclass(frozen=True)
class Facts:
    """The sizes and options of one recurrent module."""

    kind: RnnKind
    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    dropout: float = 0.0
    proj_size: int = 0
    bidirectional: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the carried states, in the order of the module's keys."""
        return ("h", "c") if self.kind == "lstm" else ("h",)

    @property
    def state_shapes(self) -> tuple[tuple[int, int], ...]:
        """``(layers, size)`` of each carried state."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        return tuple((count, size) for size in sizes[: len(self.states)])

    def __str__(self) -> str:
        name = "LSTMModule" if self.kind == "lstm" else "GRUModule"
        layers = f", {self.num_layers} layers" if self.num_layers > 1 else ""
        return f"{name}({self.input_size} to {self.hidden_size}{layers})"


def rnn_facts_of(module: nn.Module) -> Facts:
    """The facts of a live LSTMModule or GRUModule."""
    rnn = rnn_of(module)
    if rnn is None:
        raise TypeError(f"{type(module).__name__} holds no LSTM or GRU")
    own: dict[str, Any] = {
        field.name: getattr(rnn, field.name) for field in fields(Facts) if field.name != "kind"
    }
    own["dropout"] = float(own["dropout"])
    return Facts(kind="lstm" if isinstance(module, LSTMModule) else "gru", **own)


def variant_of(module: nn.Module) -> Variant:
    """How a live LSTMModule or GRUModule runs as it is. ``compile`` is not visible in it."""
    given = {
        field: _name(getattr(module, attribute))
        for field, attribute in MODULE_SETTINGS.items()
        if hasattr(module, attribute)
    }
    parameter = next(iter(rnn_parameters(module).values()), None)
    dtype = "float32" if parameter is None else _name(parameter.dtype)
    return Variant(**given, dtype=cast(Any, dtype), python_based=is_python_based(module))


def is_python_based(module: nn.Module) -> bool:
    """Whether the RNN inside is TorchRL's own Python one, not ``torch.nn``'s."""
    return not isinstance(rnn_of(module), nn.LSTM | nn.GRU)


def is_plain(module: nn.Module) -> bool:
    """TorchRL's own class, not a subclass of the user's."""
    return type(module) in (LSTMModule, GRUModule)


def rnn_parameters(module: nn.Module) -> dict[str, Tensor]:
    """Parameters of the RNN inside, by ``torch.nn``'s names."""
    rnn = rnn_of(module)
    return {} if rnn is None else dict(rnn.named_parameters())


def takes_tiled_path(facts: Facts) -> bool:
    """Whether TorchRL's Triton backend splits the hidden units of such a module over several
    programs."""
    return 1 << (facts.hidden_size - 1).bit_length() >= TILED_FROM


def standin(facts: Facts) -> Facts:
    """The module itself where Triton's interpreter is quick enough for it, else a small one of the
    same kind."""
    if facts.hidden_size <= INTERPRETED_UP_TO:
        return facts
    return replace(facts, hidden_size=STANDIN, input_size=min(facts.input_size, STANDIN))


def knows_backends() -> bool:
    """Whether this TorchRL's modules have a choice of backends; before 0.13 there is pad alone."""
    return "recurrent_backend" in LSTMModule.__init__.__annotations__


def new_module(facts: Facts, variant: Variant, **more: Any) -> nn.Module:
    """A stock module with these facts, keys ``x``, ``h``, ``c`` and ``y``, and fresh weights."""
    kind = LSTMModule if facts.kind == "lstm" else GRUModule
    sizes = {f.name: getattr(facts, f.name) for f in fields(Facts)}
    own = {key: value for key, value in sizes.items() if key not in ("kind", "proj_size")}
    if facts.kind == "lstm":
        own["proj_size"] = facts.proj_size
    settings: dict[str, Any] = {}
    if knows_backends():
        settings = {MODULE_SETTINGS[field]: getattr(variant, field) for field in MODULE_SETTINGS}
        settings["recurrent_compute_dtype"] = torch_dtype(variant.compute_dtype)
    module = kind(
        **own, **settings, **more,
        python_based=variant.python_based,
        in_keys=["x", *facts.states],
        out_keys=["y", *(("next", name) for name in facts.states)],
    )  # fmt: skip
    return cast(nn.Module, module.to(torch_dtype(variant.dtype)))


def torch_dtype(name: str) -> torch.dtype:
    """``torch.float32`` of ``float32``."""
    return cast(torch.dtype, getattr(torch, name))


def _name(value: object) -> Any:
    return str(value).removeprefix("torch.")
