"""Verifies recurrent TorchRL pipelines: nothing crosses a reset, nothing is forgotten in
between."""

from importlib import import_module as _import_module

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without typing: Ctrl-C has no meaning before `main`
if TYPE_CHECKING:
    from typing import Any as _Any

__version__ = "0.1.0"

# Imported when first used: `import rnncheck` and the command line start without torch.
_LAZY = {
    "verify": "rnncheck.api",
    "watch": "rnncheck.watching.session",
    "memory": "rnncheck.api",
    "Run": "rnncheck.results.model",
    "FindingsError": "rnncheck.errors",
    "UserError": "rnncheck.errors",
    "batch": "rnncheck.roles",
    "loss": "rnncheck.roles",
}
__all__ = [
    "FindingsError",
    "Run",
    "UserError",
    "__version__",
    "batch",
    "loss",
    "memory",
    "verify",
    "watch",
]


def __getattr__(name: str) -> "_Any":
    if name not in _LAZY:
        raise AttributeError(f"module 'rnncheck' has no attribute {name!r}")
    return getattr(_import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
