"""What a spec or the user's code asks of a newer TorchRL than the one installed: skipped by name,
never a crash.

The version is the only thing that is pretended here; tests/versions runs the real older ones.
"""

from __future__ import annotations

import pytest
import torchrl

from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.engine.session import verify_events
from rnncheck.errors import VersionError
from rnncheck.pipeline import compat
from rnncheck.results.collect import RunCollector
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Outcome, Stage
from rnncheck.spec.load import load_spec

USER = """
from own import make_env, make_policy

def newer_policy(env):
    raise TypeError("LSTMModule.__init__() got an unexpected keyword argument 'recurrent_backend'")

def newer_loss(policy):
    raise ImportError(
        "cannot import name 'TQCLoss' from 'torchrl.objectives' (objectives/__init__.py)"
    )

def broken_loss(policy):
    raise TypeError("LSTMModule.__init__() got an unexpected keyword argument 'hiden_size'")
"""


@pytest.fixture
def old(monkeypatch):
    monkeypatch.setattr(torchrl, "__version__", "0.12.0")


@pytest.fixture
def asked(bench, own_text):
    """Runs some checks on the own pipeline with a loss or another policy."""
    (bench.folder / "newer.py").write_text(USER)

    def run(more="", policy="own:make_policy", codes=("WR101", "CL402", "LS701")):
        path = bench.folder / "spec.yaml"
        path.write_text(own_text.replace("own:make_policy", policy) + more)
        listener = RunCollector()
        spec = load_spec(path)
        for event in verify_events(spec, select_rules(spec, codes)):
            listener(event)
        return listener.finish(interrupted=False, seconds=0.0)

    return run


def test_a_later_stage_is_not_looked_into_and_the_rest_is_asked(asked, old):
    run = asked("loss: {factory: 'newer:newer_loss'}\n")
    told = {check.code: (check.outcome, check.reason) for check in run.checks}
    said = "torchrl 0.12.0 has no TQCLoss: it came with 0.14 (newer.py:8)"
    assert told["LS701"] == (Outcome.NOT_LOOKED, said)
    assert told["WR101"][0] is told["CL402"][0] is Outcome.PASSED
    (loss,) = [one for one in run.stages if one.stage is Stage.LOSS]
    assert (loss.outcome, loss.detail) == (Outcome.NOT_LOOKED, said)
    assert run.exit_code == ExitCode.NOT_SHOWN


def test_without_a_policy_nothing_is_verified(asked, old):
    run = asked(policy="newer:newer_policy")
    assert run.exit_code == ExitCode.NOT_SHOWN
    assert {check.outcome for check in run.checks} == {Outcome.NOT_LOOKED}
    (reason,) = {check.reason for check in run.checks}
    assert "no argument 'recurrent_backend' of LSTMModule: it came with 0.13" in reason


def test_the_way_out_names_only_what_this_version_has(old):
    assert compat.or_by_the_collector() == ""


def test_other_mistakes_stay_mistakes(asked, old):
    with pytest.raises(Exception, match="hiden_size") as caught:
        asked("loss: {factory: 'newer:broken_loss'}\n")
    assert not isinstance(caught.value, VersionError)


def test_the_tested_version_lacks_nothing():
    assert not compat.lacks_class("TQCLoss")
    assert not compat.lacks_argument("LSTMModule", "recurrent_backend")
    assert not compat.lacks(TypeError("GAE.__init__() got an unexpected keyword argument 'x'"))
    assert "auto_register_policy_transforms=True" in compat.or_by_the_collector()


@pytest.mark.parametrize(
    ("owner", "argument", "since"),
    [
        ("LSTMModule", "recurrent_backend", "0.13"),
        ("SyncDataCollector", "auto_register_policy_transforms", "0.13"),
        ("GAE", "shifted_budget", "0.13"),
        ("SliceSampler", "end_keys", "0.14"),
    ],
)
def test_an_argument_is_named_with_its_version(old, owner, argument, since):
    said = compat.lacks_argument(owner, argument)
    assert said == f"torchrl 0.12.0 has no argument {argument!r} of {owner}: it came with {since}"


def test_an_argument_of_another_class_is_a_typing_mistake(old):
    assert not compat.lacks_argument("MLP", "recurrent_backend")


def test_arguments_that_say_what_the_old_version_does_are_left_out(old):
    asked = {"hidden_size": 8, "recurrent_backend": "pad", "recurrent_recompute": "full"}
    kept = {"hidden_size": 8, "recurrent_recompute": "full"}
    assert compat.without_implied("LSTMModule", asked) == kept
    assert compat.without_implied("GRUModule", {"recurrent_compute_dtype": "torch.float32"}) == {}


def test_the_tested_version_keeps_every_argument():
    asked = {"recurrent_backend": "pad"}
    assert compat.without_implied("LSTMModule", asked) == asked
