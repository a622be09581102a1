"""What a recurrent module inside a policy is given while the policy runs."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDict, TensorDictBase

from rnncheck.pipeline.keys import declared
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.subject import Subject


def module_inputs(subject: Subject, path: str, batch: TensorDictBase) -> TensorDictBase | None:
    """``input``, ``starts`` and ``stored 0``, ``stored 1`` of the module at ``path`` when ``batch``
    runs in recurrent mode, on the CPU; None when it is not called with a tensordict or raises."""
    network = subject.copy()
    target = network.get_submodule(path) if path else network
    caught: list[TensorDictBase] = []

    def catch(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, TensorDictBase)]
        caught.extend(one.detach().clone() for one in given[:1])

    handle = target.register_forward_pre_hook(catch, with_kwargs=True)
    try:
        run_recurrent(subject, batch, module=network)
        return _renamed(caught[0], declared(target, "in_keys")) if caught else None
    except Exception:  # the user's policy may raise anything; other checks say so
        return None
    finally:
        handle.remove()


def _renamed(td: TensorDictBase, keys: tuple[tuple[str, ...], ...]) -> TensorDictBase:
    states = [key for key in keys[1:] if key != ("is_init",)]
    found = {"input": td.get(keys[0]), "starts": td.get("is_init")}
    for number, key in enumerate(states):
        if td.get(key, None) is not None:
            found[f"stored {number}"] = td.get(key)
    return TensorDict(found, batch_size=td.batch_size).to("cpu")
