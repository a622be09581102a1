"""What differs between the TorchRL versions that are supported (0.12 to 0.14)."""

from __future__ import annotations

import multiprocessing
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torchrl
from packaging.version import Version
from torch import nn
from torchrl.objectives.value import ValueEstimatorBase

RENAMED = {  # either name of a class stands for the one that the installed version has
    "SyncDataCollector": "Collector",
    "Collector": "SyncDataCollector",
    "MultiSyncDataCollector": "MultiSyncCollector",
    "MultiSyncCollector": "MultiSyncDataCollector",
    "MultiaSyncDataCollector": "MultiAsyncCollector",
    "MultiAsyncCollector": "MultiaSyncDataCollector",
}

# The version that brought a class or an argument, for those that 0.12 lacks.
CLASSES: Final = (
    (
        "0.13",
        (
            "ACTLoss ActionScaling BCLoss CrossCriticGroupSpec CrossGroupCritic DreamerV3ActorLoss"
            " DreamerV3ModelLoss DreamerV3ValueLoss ExpandAs FlattenAction HERReplayBuffer IPPOLoss"
            " MAPPOLoss MacroPrimitiveTransform MultiAgentGAE MujocoEnv NextObservationDelta"
            " NextStateReconstructor PopArtValueNorm RunningValueNorm TerminateTransform"
        ),
    ),
    (
        "0.14",
        (
            "ActionChunkTransform ActionTokenizerTransform ComposeValueTransform ConsumingSampler"
            " DreamerV3BlockGRU DreamerV3BlockGRUCell DreamerV3Loss DreamerV3MLP"
            " IdentityValueTransform KLAdaptiveLR MicroDuckEnv OfflineToOnlineReplayBuffer"
            " PercentileValueNorm PolicyAgeFilter PromptGroupSampler RNDLoss RNDTransform"
            " RSSMPosteriorV3 RSSMPriorV3 RSSMRolloutV3 SignedHyperbolicValueTransform"
            " StreamingSliceSampler SuccessReward SymLogValueTransform TQCLoss ToyVLAEnv"
            " WorldModelEnv WorldModelLoss"
        ),
    ),
)
_COLLECTORS = "Collector MultiSyncCollector MultiAsyncCollector"
_ESTIMATORS = "GAE TD0Estimator TD1Estimator TDLambdaEstimator VTrace"
_BUFFERS = "ReplayBuffer TensorDictReplayBuffer"
_PPO = "PPOLoss ClipPPOLoss KLPENPPOLoss"
NEW_ARGUMENTS: Final = (
    (
        "0.13",
        "GRUModule LSTMModule",
        "recurrent_backend recurrent_compute_dtype recurrent_matmul_precision recurrent_recompute",
    ),
    ("0.13", "SliceSampler", "pad_output"),
    ("0.13", "Collector", "track_traj_ids"),
    (
        "0.13",
        _COLLECTORS,
        (
            "auto_register_policy_transforms compact_obs post_collect_hook pre_collect_hook"
            " trajs_per_write"
        ),
    ),
    ("0.13", _ESTIMATORS, "num_chunk num_chunks shifted_budget value_chunk_size"),
    (
        "0.13",
        "PrioritizedReplayBuffer TensorDictPrioritizedReplayBuffer",
        "sampler_device sync",
    ),
    (
        "0.14",
        "SliceSampler SliceSamplerWithoutReplacement PrioritizedSliceSampler",
        "end_keys init_key",
    ),
    ("0.14", "SliceSampler", "fragmented step_key"),
    (
        "0.14",
        _BUFFERS,
        (
            "consume_after_n_samples sample_unit service_backend service_backend_options transport"
            " transport_options"
        ),
    ),
    ("0.14", "ParallelEnv SerialEnv", "metadata_from_workers shutdown_timeout"),
    ("0.14", "CatFrames", "future mask_key"),
    ("0.14", _COLLECTORS, "traj_format"),
    ("0.14", "Collector", "backend backend_options num_collectors"),
    ("0.14", f"A2CLoss {_PPO}", "advantage_norm"),
    ("0.14", _PPO, "delay_actor max_importance_ratio"),
    ("0.14", _ESTIMATORS, "group_key value_chunk_dim"),
)
# What a version without these arguments does anyway.
IMPLIED: Final[Mapping[str, str]] = {
    "recurrent_backend": "pad",
    "recurrent_compute_dtype": "float32",
    "recurrent_recompute": "none",
    "recurrent_matmul_precision": "auto",
}
_NEEDED = (  # how Python and TorchRL say that a class or an argument is not there
    r"(?P<owner>\w+)\.__init__\(\) got an unexpected keyword argument '(?P<argument>\w+)'",
    r"cannot import name '(?P<owner>\w+)' from '(?:torchrl|tensordict)[\w.]*'",
    r"module '(?:torchrl|tensordict)[\w.]*' has no attribute '(?P<owner>\w+)'",
)


def installed() -> Version:
    """The version of TorchRL that runs here."""
    return Version(torchrl.__version__)


def other_name(name: str) -> str | None:
    """The name that a class has in another version of TorchRL."""
    return RENAMED.get(name)


def lacks_class(name: str) -> str:
    """A sentence where ``name`` is a class of a newer TorchRL, else nothing."""
    return next(
        (_sentence(name, since) for since, names in CLASSES if _newer(since, name, names)), ""
    )


def lacks_argument(owner: str, argument: str) -> str:
    """A sentence where a newer TorchRL's ``owner`` takes the argument, else nothing."""
    known = (owner, RENAMED.get(owner, owner))
    for since, owners, arguments in NEW_ARGUMENTS:
        if any(name in owners.split() for name in known) and _newer(since, argument, arguments):
            return _sentence(f"argument {argument!r} of {owner}", since)
    return ""


def lacks(error: BaseException) -> str:
    """A sentence where ``error`` was raised because the user's code is written for a newer
    TorchRL."""
    for pattern in _NEEDED:
        found = re.search(pattern, str(error))
        if found and isinstance(error, TypeError | ImportError | AttributeError):
            named = found.groupdict()
            argument = named.get("argument")
            return (
                lacks_argument(named["owner"], argument)
                if argument
                else lacks_class(named["owner"])
            )
    return ""


def _newer(since: str, name: str, names: str) -> bool:
    return name in names.split() and installed() < Version(since)


def _sentence(what: str, since: str) -> str:
    return f"torchrl {installed().public} has no {what}: it came with {since}"


def without_implied(owner: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that this version does not take, where they ask for what it does
    anyway."""
    return {
        name: value
        for name, value in args.items()
        if IMPLIED.get(name) != str(value).removeprefix("torch.") or not lacks_argument(owner, name)
    }


def loses_end_states() -> bool:
    """Whether recurrent mode leaves 0 at the end of a trajectory that is shorter than the longest:
    before 0.13, pytorch/rl issue 3711."""
    return installed() < Version("0.13")


def sums_over_time(estimator: object) -> bool:
    """Whether it is one of TorchRL's own estimators, and takes no mean over what it is given."""
    normalise = ("average_gae", "average_rewards", "average_adv")
    own = isinstance(estimator, ValueEstimatorBase)
    return own and not any(getattr(estimator, name, False) for name in normalise)


def joins_rows(estimator: object) -> bool:
    """Whether an estimator flattens its rows into one and leaves a row that starts in mid-episode
    unmarked: with ``shifted=True`` before 0.13."""
    return getattr(estimator, "shifted", False) is True and installed() < Version("0.13")


def or_by_the_collector() -> str:
    """The other way to get state primers, for the end of an advice; nothing before 0.13."""
    option = "auto_register_policy_transforms"
    return "" if lacks_argument("Collector", option) else f", or give the collector {option}=True"


def primers_of(module: nn.Module) -> list[Any]:
    """The state primers that the module's recurrent submodules ask for, one by one."""
    from torchrl.modules.utils import get_primers_from_module

    with warnings.catch_warnings():  # before 0.13 there is no ``warn=False``
        warnings.filterwarnings("ignore", message="No primers found")
        return list(_flat(get_primers_from_module(module)))


def _flat(transform: Any) -> Iterator[Any]:
    from torchrl.envs.transforms import Compose

    if isinstance(transform, Compose):
        for part in transform:
            yield from _flat(part)
    elif transform is not None:
        yield transform


def with_policy_transforms(env: Any, policy: nn.Module) -> Any:
    """What a collector does under ``auto_register_policy_transforms=True``, which came with
    0.13."""
    from torchrl.modules.utils.utils import _maybe_append_env_transforms_from_module

    return _maybe_append_env_transforms_from_module(env, policy)


def adds_policy_transforms(collector: object) -> bool:
    """Whether a collector does that."""
    return getattr(collector, "_auto_register_policy_transforms", None) is True


def unbatched_action_spec(env: Any) -> Any:
    """The composite action spec without the env's own batch dimensions."""
    return env.full_action_spec_unbatched


def runs_workers(collector: object) -> bool:
    """Whether a collector collects in processes of its own."""
    return any("Multi" in kind.__name__ for kind in type(collector).__mro__)


def is_worker() -> bool:
    """Whether this process was started by another one of Python's."""
    return multiprocessing.parent_process() is not None


def takes_turns(collector: object) -> bool:
    """Whether consecutive batches come from different workers of the collector."""
    return any("async" in kind.__name__.lower() for kind in type(collector).__mro__)


def weight_senders(collector: object) -> list[Any]:
    """What sends weights to a collector's workers.

    A sender that is still open when the interpreter ends starts a thread there, which waits for
    ever.
    """
    schemes = getattr(collector, "_weight_sync_schemes", None)
    return list(schemes.values()) if isinstance(schemes, dict) else []
