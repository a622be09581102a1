"""Changes of fixtures/scripts/plain_single.py and plain_vector.py: steps that are broadcast over
each other by accident, and on purpose."""

from __future__ import annotations

Changes = tuple[tuple[str, str], ...]

_RETURN = "    return 0.1 * advantage.square().mean() - (chosen"
_WITH_MORE = _RETURN.replace("return 0.1", "return more + 0.1")
_WIDE = (
    "nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)",
    "nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 64)",
)
_NOT_SQUEEZED = ("self.value(h).squeeze(-1), h", "self.value(h), h")
_ADVANTAGE = "    advantage = torch.stack(found[::-1]) - values\n"
_QUANTILES = """    returns = torch.stack(found[::-1])
    advantage = returns - values.mean(-1)
    taus = (torch.arange(64) + 0.5) / 64
    goal = returns.unsqueeze(-1) + 0.1 * values.detach().roll(1, -1)
    gap = goal.unsqueeze(-2) - values.unsqueeze(-1)
    more = ((taus.view(-1, 1) - (gap < 0).float()).abs() * gap.abs()).mean()
"""
_RANKED = """    returns = torch.stack(found[::-1]).view(-1)
    better = (returns.view(-1, 1) > returns).float()
    gap = values.view(-1, 1) - values.detach().view(-1).clone()
    more = (better * (1 - gap).clamp(min=0)).mean()
"""
_TOLD_APART = """    flat = logits.view(-1, 2)
    far = (flat.unsqueeze(1) - data["x"].view(-1, 4)[:, :2].unsqueeze(0)).square().sum(-1)
    more = nn.functional.cross_entropy(-far, torch.arange(len(flat)))
"""
_DISTRIBUTIONS = """    returns = torch.stack(found[::-1]).view(-1)
    near = -(values.view(-1).unsqueeze(1) - returns.unsqueeze(0)).square()
    more = -near.exp().mean()
"""
_WEIGHTED = """    weight = (torch.arange(64) < 50).float().unsqueeze(-1)
    more = (weight * advantage.square().view(-1)).mean()
"""

# Of plain_single.py.
VALUES: Changes = (_NOT_SQUEEZED,)
LOG_PROBS: Changes = (("(logits=logits).log_prob", "(logits=logits.squeeze(1)).log_prob"),)
QUANTILES: Changes = (_WIDE, _NOT_SQUEEZED, (_ADVANTAGE, _QUANTILES), (_RETURN, _WITH_MORE))
WEIGHTED: Changes = (
    (_RETURN, _WEIGHTED + _RETURN.replace("0.1 * advantage.square().mean()", "more")),
)
DISTRIBUTIONS: Changes = ((_RETURN, _DISTRIBUTIONS + _WITH_MORE),)
RANKED: Changes = ((_RETURN, _RANKED + _WITH_MORE),)
TOLD_APART: Changes = ((_RETURN, _TOLD_APART + _WITH_MORE),)

# Of plain_vector.py, where minibatches are drawn.
NEW_VALUES: Changes = (("newvalue.view(-1)", "newvalue.view(-1, 1)"),)
GAINS: Changes = (("gain = b_advantages[rows]", "gain = b_advantages[rows, None]"),)
RATIOS: Changes = (("newlogprob - b_logprobs[rows]", "newlogprob - b_logprobs[rows, None]"),)
ACTIONS: Changes = (("b_actions.long()[rows]", "b_actions.long()[rows, None]"),)
