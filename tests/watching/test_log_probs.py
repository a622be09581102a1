"""What scripts keep of their policy's outputs beside the steps."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Bernoulli, Categorical, Independent, Normal, Uniform

from rnncheck.watching.forms.log_probs import close, derived_of, drawn_by, is_derived

ROWS, STEPS = 2, 7


@given(seed=st.integers(0, 1000), actions=st.integers(2, 5))
def test_log_probabilities_of_discrete_actions(seed: int, actions: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(ROWS, STEPS, actions, generator=draw)
    taken = torch.randint(actions, (ROWS, STEPS), generator=draw)
    found = derived_of({("logits",): logits}, taken)
    whole = Categorical(logits=logits)
    assert close(found["log_prob", "logits"], whole.log_prob(taken))
    assert close(found["entropy", "logits"], whole.entropy())
    assert all(is_derived(key) for key in found)


def test_probabilities_are_told_from_logits() -> None:
    probs = torch.softmax(torch.randn(ROWS, STEPS, 3), -1)
    taken = torch.randint(3, (ROWS, STEPS))
    found = derived_of({("p",): probs}, taken)
    assert close(found["log_prob", "p, probabilities"], Categorical(probs=probs).log_prob(taken))
    assert ("log_prob", "x, probabilities") not in derived_of({("x",): probs * 2}, taken)


def test_log_probabilities_of_continuous_actions() -> None:
    loc, scale = torch.randn(ROWS, STEPS, 2), torch.rand(ROWS, STEPS, 2) + 0.1
    taken = torch.randn(ROWS, STEPS, 2)
    found = derived_of({("loc",): loc, ("scale",): scale}, taken)
    told = Normal(loc, scale).log_prob(taken)
    assert close(found["log_prob", "loc and scale"], told)
    assert close(found["log_prob", "loc and scale, summed"], told.sum(-1))


def test_outputs_of_another_form_give_nothing() -> None:
    assert derived_of({("v",): torch.randn(ROWS, STEPS, 1)}, torch.zeros(ROWS, STEPS).long()) == {}
    assert derived_of({("v",): torch.randn(ROWS, STEPS, 3)}, torch.randn(ROWS, STEPS, 2)) == {}


def test_what_a_distribution_was_made_with() -> None:
    logits = torch.randn(4)
    assert torch.equal(
        drawn_by(Categorical(logits=logits))["logits"], Categorical(logits=logits).logits
    )
    probs = torch.softmax(logits, -1)
    assert close(drawn_by(Categorical(probs=probs))["logits"], probs.log())
    assert set(drawn_by(Bernoulli(probs=torch.rand(2)))) == {"logits"}
    assert set(drawn_by(Independent(Normal(torch.zeros(2), torch.ones(2)), 1))) == {"loc", "scale"}
    assert drawn_by(Uniform(0.0, 1.0)) == {}


def test_asking_changes_no_distribution() -> None:
    """Categorical makes the other parameter when it is asked for."""
    one = Categorical(probs=torch.softmax(torch.randn(4), -1))
    before = set(vars(one))
    drawn_by(one)
    assert set(vars(one)) == before
