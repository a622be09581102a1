"""Changes of fixtures/scripts/plain_single.py: training code that is written for as many steps as
the script collects."""

from __future__ import annotations

from tests.watching.scripts import SCRIPTS

Change = tuple[str, str]

_TEXT = (SCRIPTS / "plain_single.py").read_text()
_RETURNS = _TEXT[_TEXT.index("    after, found = torch.zeros(1)") : _TEXT.index("    chosen = ")]
_COUNTED = """    returns, after = torch.zeros(STEPS, 1), torch.zeros(1)
    for t in reversed(range(STEPS)):
        after = data["reward"][t] + GAMMA * after * ~data["done"][t]
        returns[t] = after
    advantage = returns - values
"""
_REPLAY = '    logits, values = net.replay(data["x"], first, data["start"])\n'
_UNROLLED = """    hidden, logits, values = first, [], []
    for t in range(STEPS):
        hidden = torch.where(data["start"][t].view(-1, 1), torch.zeros_like(hidden), hidden)
        out, value, hidden = net(data["x"][t], hidden)
        logits.append(out)
        values.append(value)
    logits, values = torch.stack(logits), torch.stack(values)
"""
# The returns alone are: the pass is a function of its own.
RETURNS: Change = (_RETURNS, _COUNTED)
# The pass is as well.
UNROLLED: Change = (_REPLAY, _UNROLLED)
SHORT: Change = ("STEPS, HIDDEN, GAMMA = 64", "STEPS, HIDDEN, GAMMA = 12")
# In the pass, where it is unrolled.
_PUT_BACK = 'torch.where(data["start"][t].view(-1, 1), torch.zeros_like(hidden), hidden)'
RUNS_ON: Change = (_PUT_BACK, "hidden")
NOT_RESET: Change = (
    _REPLAY,
    "".join(line for line in _UNROLLED.splitlines(keepends=True) if "torch.where" not in line),
)
