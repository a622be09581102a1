"""What the stages behind collection share: components inside arguments, the networks to hand on."""

from __future__ import annotations

from typing import Any

from torch import nn

from rnncheck.pipeline.assembly.env_maker import build_any
from rnncheck.pipeline.assembly.factories import Offered, call_factory
from rnncheck.pipeline.keys import declared
from rnncheck.spec.model import Component, Spec

_STATE_VALUE = ("state_value",)


def build_nested(spec: Spec, component: Component, offered: Offered) -> Any:
    """Build it; a factory is offered what its stage's own factory would be."""
    if component.factory is not None:
        return call_factory(spec, component, offered)
    return build_any(spec, component)


def offered_networks(offered: Offered) -> list[nn.Module]:
    """The policy, and the critic where there is one."""
    return [network for name in ("policy", "critic") if (network := offered[name]()) is not None]


def offered_critic(offered: Offered) -> nn.Module | None:
    """The critic; without one, the value head of a policy that has one."""
    critic, policy = offered["critic"](), offered["policy"]()
    if critic is None and hasattr(policy, "get_value_operator"):
        critic = policy.get_value_operator()
    if critic is None and _STATE_VALUE in declared(policy, "out_keys"):
        critic = policy
    found: nn.Module | None = critic
    return found


def reads_action(network: nn.Module) -> bool:
    """Whether a critic judges an action (a Q-network) rather than a state."""
    return any(key[-1] == "action" for key in declared(network, "in_keys"))
