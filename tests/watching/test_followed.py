"""What a script's functions return is heard of, whatever the modules inside them do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.followed import FollowedCalls
from rnncheck.watching.seams.patching import hear_modules


class Failing(nn.Module):
    """Raises, from inside a module of its own or not."""

    def __init__(self, error: BaseException, *, deep: bool) -> None:
        super().__init__()
        self.error, self.inner = error, Failing(error, deep=False) if deep else None

    def forward(self, x: Tensor) -> Tensor:
        if self.inner is not None:
            return self.inner(x)  # type: ignore[no-any-return]
        raise self.error


class Heard:
    """Follows the function ``act`` from the first module in it on, as the seams do."""

    def __init__(self) -> None:
        self.calls, self.results = FollowedCalls(), list[Any]()
        self.traced = list[bool]()  # whether Python was, when a module ran

    def before(self, _module: nn.Module, _inputs: Any) -> None:
        self.calls.pause()
        frame = sys._getframe(1)
        while frame.f_code.co_name != "act" and frame.f_back is not None:
            frame = frame.f_back
        if frame.f_code.co_name == "act" and frame not in self.calls:
            self.calls.follow(frame, self.results.append)

    def after(self, _module: nn.Module, _inputs: Any, *_told: Any) -> None:
        self.traced.append(sys.gettrace() is not None)
        self.calls.resume()


@pytest.fixture
def heard() -> Iterator[Heard]:
    noting = Heard()
    with ExitStack() as scope:
        hear_modules(Watching(1, ends=False), scope, noting.before, noting.after)
        yield noting
        noting.calls.stop()
    assert sys.gettrace() is None


def trial(failing: nn.Module) -> Callable[[Tensor], Tensor]:
    """A function that goes on where the module raises."""

    def act(x: Tensor) -> Tensor:
        try:
            x = failing(x)
        except (ValueError, KeyboardInterrupt):
            x = x + 1
        return x * 2

    return act


@pytest.mark.parametrize("deep", [False, True])
def test_a_function_is_heard_where_a_module_in_it_raised(heard: Heard, deep: bool) -> None:
    act = trial(Failing(ValueError("no"), deep=deep))
    for value in (1.0, 2.0):
        act(torch.tensor(value))
    assert [one.item() for one in heard.results] == [4.0, 6.0]


@pytest.mark.parametrize("deep", [False, True])
def test_the_next_call_is_heard_behind_an_interrupt(heard: Heard, deep: bool) -> None:
    """No hook of torch's hears of it: how many modules run is not known any more."""
    trial(Failing(KeyboardInterrupt(), deep=deep))(torch.tensor(1.0))
    heard.calls.stop()  # as the next step of the env does
    heard.results.clear()
    trial(nn.Identity())(torch.tensor(2.0))
    assert [one.item() for one in heard.results] == [4.0]


def test_nothing_is_traced_while_a_module_of_the_function_runs(heard: Heard) -> None:
    act = trial(nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity(), nn.Identity())))
    act(torch.tensor(1.0))
    assert heard.traced == [False] * 5
    assert len(heard.results) == 1


def test_a_function_inside_a_module_is_heard_and_so_is_the_one_around_it(heard: Heard) -> None:
    inner = trial(nn.Identity())

    class Around(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return inner(x) + 1

    assert trial(Around())(torch.tensor(1.0)).item() == 6.0
    assert [one.item() for one in heard.results] == [2.0, 6.0]
