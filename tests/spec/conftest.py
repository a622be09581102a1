"""A small valid spec, and what is wrong with a bad one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from rnncheck.errors import SpecError
from rnncheck.spec.load import spec_from_text

BASE = """\
schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1}
policy: [LSTMModule]
"""
Refuse = Callable[..., Sequence[SpecError]]


@pytest.fixture
def base() -> str:
    """Four lines that are a valid spec; more keys can be appended from line 5 on."""
    return BASE


@pytest.fixture
def refuse() -> Refuse:
    """Loads a bad text and returns its errors, one by one."""

    def load(text: str, *overrides: str) -> Sequence[SpecError]:
        with pytest.raises(SpecError) as caught:
            spec_from_text(text, "spec.yaml", overrides)
        errors: Sequence[SpecError] = getattr(caught.value, "errors", (caught.value,))
        return errors

    return load
