"""What differs between the TorchRL versions that are supported (0.12 to 0.14)."""

from __future__ import annotations

from typing import Any

from torch import nn

RENAMED = {  # either name of a class stands for the one that the installed version has
    "SyncDataCollector": "Collector",
    "Collector": "SyncDataCollector",
    "MultiSyncDataCollector": "MultiSyncCollector",
    "MultiSyncCollector": "MultiSyncDataCollector",
    "MultiaSyncDataCollector": "MultiAsyncCollector",
    "MultiAsyncCollector": "MultiaSyncDataCollector",
}


def other_name(name: str) -> str | None:
    """The name that a class has in another version of TorchRL."""
    return RENAMED.get(name)


def primers_of(module: nn.Module) -> list[Any]:
    """The state primers that the module's recurrent submodules ask for, one by one."""
    from torchrl.modules.utils import get_primers_from_module

    return _flat(get_primers_from_module(module, warn=False))


def _flat(transform: Any) -> list[Any]:
    from torchrl.envs.transforms import Compose

    if transform is None:
        return []
    if not isinstance(transform, Compose):
        return [transform]
    return [inner for part in transform for inner in _flat(part)]


def unbatched_action_spec(env: Any) -> Any:
    """The composite action spec without the env's own batch dimensions."""
    return env.full_action_spec_unbatched


def runs_workers(collector: object) -> bool:
    """Whether a collector collects in processes of its own."""
    return any("Multi" in kind.__name__ for kind in type(collector).__mro__)
