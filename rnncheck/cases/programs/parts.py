"""The parts of a pipeline as lines of a program: env, networks, collected batches, training
batch, estimator, loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensordict import TensorDictBase
from tensordict.nn import TensorDictSequential

from rnncheck.cases.model import CaseError, StoredCase
from rnncheck.cases.programs.texts import code_of, entry, folded, key_code, literal, packed
from rnncheck.cases.programs.writer import Writer
from rnncheck.cases.smaller import episodes_in
from rnncheck.cases.tensors import Inputs
from rnncheck.pipeline.assembly.collectors import wanted_batches
from rnncheck.pipeline.assembly.made import MadeCall
from rnncheck.pipeline.assembly.replay import RECURRENT
from rnncheck.pipeline.assembly.training import COLLECTED, runs_on
from rnncheck.pipeline.compat import runs_workers
from rnncheck.pipeline.instruments.own_loss import OwnLoss, OwnLosses
from rnncheck.pipeline.keys import STEP_KEY, Key, as_key, declared, tensor_items
from rnncheck.pipeline.model import Pipeline
from rnncheck.spec.model import Component, KeyPath, Spec

MOST_NUMBERS = 300  # of a batch that is written out: chosen, some twenty lines
_DRAWN = 8  # samples of a buffer in which a join is looked for: one may happen to have none


@dataclass(frozen=True)
class Ingredients:
    """What a program is written from: the case, its spec, the pipeline and how it was ``made``, and
    the stored data. ``folder`` is where the user's modules are, unless the program lies there."""

    case: StoredCase
    spec: Spec
    pipeline: Pipeline
    made: list[MadeCall]
    inputs: Inputs
    folder: str


class ProgramParts:
    """Writes the parts of a pipeline that are asked for, each behind what it needs."""

    def __init__(self, given: Ingredients) -> None:
        self.given = given
        self.case, self.spec, self.pipeline = given.case, given.spec, given.pipeline
        self.writer = Writer(given.made)
        self._by_place = {one.component.at: one for one in given.made}
        self.is_written_out = False  # the batch, number by number
        self._lines: list[str] = []
        self._done: set[str] = set()

    def text(self) -> str:
        """All that was asked for."""
        lines = "\n".join(self._lines)
        before = self._new_env() if "new_env" in lines else ""
        return before + lines

    @property
    def folder(self) -> str:
        """Where the user's modules are; empty where none is imported, or the program lies there."""
        return self.given.folder if self.writer.own else ""

    def policy(self) -> None:
        """The policy."""
        self._network("policy", self.spec.policy.factory, self.pipeline.policy)

    def critic(self) -> None:
        """The critic."""
        self.policy()
        if self.spec.critic is None or self.pipeline.critic is None:
            return
        self._network("critic", self.spec.critic.factory, self.pipeline.critic)

    def networks(self) -> None:
        """Policy and critic."""
        self.policy()
        self.critic()

    def env(self) -> None:
        """``whole_env``: the env as it is stepped."""
        self.networks()
        if self._first_time("env"):
            self._lines += ["", "", *self._whole_env(), ""]
            self.writer.has_whole_env = True

    def batches(self) -> None:
        """``batches``: what was collected."""
        self.env()
        if not self._first_time("batches"):
            return
        component = self.spec.collect
        if component is None:
            raise CaseError("nothing is collected")
        if component.args.get("replay_buffer") or component.args.get("background"):
            raise CaseError("a collector that writes into the replay buffer has no program")
        if runs_workers(self.pipeline.collector):
            raise CaseError("each process of the collector would run the program anew")
        made = self._at(component.at)
        self._say(f"collector = {self.writer.call(made)}")
        if isinstance(made.value, TensorDictBase):
            self._lines.append("batches = [collector]")
        else:
            count = max(wanted_batches(self.spec, component), self.pipeline.random_batches + 1)
            self._lines.append(
                f"batches = [one.clone() for _, one in zip(range({count}), collector)]"
            )

    def estimate(self) -> None:
        """``estimate``: the value estimator as a function of a batch."""
        self.networks()
        if not self._first_time("estimate"):
            return
        section = self.spec.advantage
        if section is None:
            raise CaseError("the spec has no value estimator")
        self._say(f"estimator = {self.writer.call(self._at(section.at))}")
        self._keys("estimator", section.keys)
        named = section.use is not None and section.recurrent_mode
        self._lines += ["", "", "def estimate(data):"]
        inner = ["found = estimator(batch)", "return batch if found is None else found"]
        self._lines.append("    batch = data.clone()")
        if named:
            self.writer.uses("torchrl.modules", "set_recurrent_mode")
            self._lines.append("    with set_recurrent_mode(True):")
        indent = "    " * (1 + named)
        self._lines += [f"{indent}{one}" for one in inner] + ["", ""]

    def sample(self, *, numbered: bool = False) -> None:
        """``sample``: the training batch. ``numbered``: each collected step has its number."""
        self.batches()
        if not self._first_time("sample"):
            return
        if numbered:
            self._lines += _NUMBERED
        estimated = self.spec.advantage is not None and runs_on(self.spec) == COLLECTED
        if estimated:
            self.estimate()
            self._lines.append("batches = [estimate(one) for one in batches]")
        alone = self.spec.batch is None and (estimated or self.spec.advantage is None)
        self._lines += self._sampled(_DRAWN if numbered and alone else 1)
        if self.spec.batch is not None:
            self._say(f"sample = {self.writer.call(self._at(self.spec.batch.at))}")
        if self.spec.advantage is not None and not estimated:
            self.estimate()
            self._lines.append("sample = estimate(sample)")

    def every_sample(self) -> None:
        """``sample``: the training batches of all that was collected, one below the other, where
        none is drawn from a buffer. Each collected step has its number."""
        self.batches()
        if self.spec.replay is not None or self.spec.advantage is not None:
            raise CaseError("its training batches are not the collected ones")
        section = self.spec.batch
        made = "sample" if section is None else self.writer.call(self._at(section.at))
        self._lines += [*_NUMBERED, "samples = []", "for sample in batches:"]
        self._lines += folded(f"samples.append({made})", "    ")
        self._lines.append("sample = torch.cat(samples)")

    def add(self, text: str) -> None:
        """Lines of the caller's own."""
        self._lines += text.splitlines()

    def batch(self) -> TensorDictBase:
        """The batch that ``sample`` is, as it is stored."""
        stored = self.given.inputs
        found = stored.collected if "to estimate" in self._done else stored.trained
        if not found:
            raise CaseError("the case holds no training batch")
        return found[0]

    def training_batch(self) -> None:
        """``sample``: the stored one where it is small, else one that is made anew."""
        if not self._first_time("training batch"):
            return
        if self._written_out(self.batch()):
            return
        self.sample()

    def batch_to_estimate(self, *, anew: bool = False) -> None:
        """``sample``: a collected batch before the value estimator. ``anew``: never the stored one,
        whose states other weights have left."""
        if self.spec.advantage is None or runs_on(self.spec) != COLLECTED:
            self.sample() if anew else self.training_batch()
        elif self._first_time("to estimate") and (anew or not self._written_out(self.batch())):
            self.batches()
            self._lines.append("sample = batches[0]")

    def _written_out(self, batch: TensorDictBase) -> bool:
        """Write the batch's numbers, where they are few."""
        kept = [(key, value) for key, value in tensor_items(batch) if self._is_read(key)]
        if sum(value.numel() for _, value in kept) > MOST_NUMBERS:
            return False
        self.writer.uses("tensordict", "TensorDict")
        root = [entry(key_code(key), literal(one)) for key, one in kept if key[0] != "next"]
        later = [entry(key_code(key[1:]), literal(one)) for key, one in kept if key[0] == "next"]
        self._lines += ["sample = TensorDict({", *packed(root), '    "next": {']
        self._lines += [*packed(later, " " * 8), "    },", f"}}, {list(batch.shape)})"]
        self.is_written_out = True
        return True

    def _is_read(self, key: Key) -> bool:
        """Whether loss and networks read it, as far as that is said; of the user's own functions
        it is not."""
        if key[0] == "collector" or any(part.startswith(STEP_KEY[0]) for part in key):
            return False  # what the collector and rnncheck itself added
        if not self._is_stock():
            return True
        networks = [one for one in (self.pipeline.policy, self.pipeline.critic) if one is not None]
        inputs = {one for network in networks for one in declared(network, "in_keys")}
        asked = {as_key(one) for one in getattr(self.pipeline.loss, "in_keys", ())}
        return key in asked | inputs | {("next", *one) for one in inputs} | {("is_init",)}

    def _is_stock(self) -> bool:
        """Whether loss and estimator are TorchRL's."""
        sections = (self.spec.loss, self.spec.advantage)
        return all(one is None or one.use is not None for one in sections)

    def loss(self, **more: Any) -> None:
        """``loss``, called on a batch."""
        self.networks()
        if not self._first_time("loss"):
            return
        section = self.spec.loss
        if section is None:
            raise CaseError("the spec has no loss")
        if section.function is not None:
            self._own_function(section)
            return
        made = self._at(section.at)
        if more:
            made = MadeCall(made.component, made.by, made.rest, {**made.args, **more}, made.value)
        self._say(f"loss = {self.writer.call(made)}")
        self._keys("loss", section.keys)
        if section.value_estimator:
            args = dict(section.value_estimator)
            kind = args.pop("type", None)
            if kind is not None:
                raise CaseError("the type of a value estimator cannot be written into a program")
            said = ", ".join(f"{name}={code_of(value)}" for name, value in args.items())
            self._say(f"loss.make_value_estimator({said})")

    # --- what they are made of ---------------------------------------------------------------

    def _network(self, name: str, factory: Component | None, live: Any) -> None:
        if not self._first_time(name):
            return
        made = self._at(factory.at) if factory is not None else None
        if made is None and type(live) is TensorDictSequential:
            self.writer.uses("tensordict.nn", "TensorDictSequential")
            self._lines.append(f"{name} = TensorDictSequential(")
            for part in live.module:
                self._lines += folded(f"{self.writer.written(part)},", "    ")
            self._lines.append(")")
        else:
            text = self.writer.call(made) if made is not None else self.writer.written(live)
            self._say(f"{name} = {text}")
        self.writer.name(live, name)
        section = self.spec.policy if name == "policy" else self.spec.critic
        if section is not None and section.weights:
            self._say(f'{name}.load_state_dict(torch.load("{section.weights}"))')

    def _own_function(self, section: Component) -> None:
        """A function that is the loss itself."""
        live = self.pipeline.loss
        if not isinstance(live, OwnLoss) or isinstance(live, OwnLosses):
            raise CaseError("the loss is no function of a batch")
        module, _, name = (section.factory or "").partition(":")
        self.writer.uses(module, name)
        self.writer.own = True
        given = [f"{key}={self.writer.written(one)}" for key, one in live.given.items()]
        batch = f"{live.batch}=data" if live.batch else "data"
        self._lines += ["", "", "def loss(data):"]
        if live.time_first:
            self._lines.append("    data = data.transpose(0, 1).contiguous()")
        self._lines += folded(f"return {name}({', '.join([batch, *given])})", "    ")
        self._lines += ["", ""]

    def _sampled(self, count: int) -> Iterator[str]:
        """``sample``: of several draws one row each."""
        section = self.spec.replay
        if section is None:
            yield "sample = batches[0]"
            return
        made = self._at(section.at)
        live = self.pipeline.replay
        if live is not made.value:
            raise CaseError("the replay buffer is not the one that the spec names")
        yield from folded(f"replay = {self.writer.call(made)}")
        for component in section.transforms:
            part = self._at(component.at)
            if RECURRENT in component.args or "BurnIn" in str(component.use):
                raise CaseError("a burn-in transform cannot be written into a program")
            yield from folded(f"replay.append_transform({self.writer.call(part)})")
        flat = section.flatten == "rows" or (
            section.flatten == "auto"
            and int(getattr(getattr(live, "storage", None), "ndim", 1)) == 1
        )
        yield "for one in batches:"
        yield f"    replay.extend(one{'.reshape(-1)' if flat else ''})"
        own = getattr(live, "batch_size", None) or section.batch_size is None
        drawn = f"replay.sample({'' if own else section.batch_size})"
        several = f"torch.stack([{drawn} for _ in range({count})])"
        yield f"sample = {several if count > 1 else drawn}"

    def _keys(self, name: str, keys: dict[str, Any]) -> None:
        if keys:
            said = ", ".join(f"{k}={code_of(_as_key(v))}" for k, v in keys.items())
            self._say(f"{name}.set_keys({said})")

    def _new_env(self) -> str:
        env = self.spec.env
        made = self.writer.call(self._at(env.at))
        parts = [self._transform(one) for one in env.transforms]
        if parts:
            self.writer.uses("torchrl.envs", "Compose", "TransformedEnv")
            made = f"TransformedEnv({made}, Compose({', '.join(parts)}))"
        lines = folded(f"return {made}", "    ")
        return "\n".join(["def new_env():", *lines, "", "", ""])

    def _transform(self, component: Component) -> str:
        made = self._at(component.at)
        loc, scale = (getattr(made.value, name, None) for name in ("loc", "scale"))
        if component.use == "ObservationNorm" and loc is not None and scale is not None:
            args = {**made.args, "loc": loc.detach(), "scale": scale.detach()}
            return self.writer.call(MadeCall(component, made.by, made.rest, args, made.value))
        return self.writer.call(made)

    def _whole_env(self) -> Iterator[str]:
        """The env with what the networks need: copies, state primers, a seed."""
        count = self.spec.env.workers
        yield "def whole_env():"
        if count > 1:
            self.writer.uses("torchrl.envs", "SerialEnv")
            yield f"    env = SerialEnv({count}, new_env)"
        else:
            yield "    env = new_env()"
        for one in self._extras():
            yield from folded(f"env = env.append_transform({one})", "    ")
        yield f"    env.set_seed({self.spec.seed})"
        yield "    return env"

    def _extras(self) -> Iterator[str]:
        for one in getattr(self.pipeline.make_env, "extra", ()):
            name = type(one).__name__
            if name == "InitTracker":
                self.writer.uses("torchrl.envs", "InitTracker")
                yield "InitTracker()"
            elif self._first_time("primers"):
                self.writer.uses("torchrl.modules", "get_primers_from_module")
                yield "get_primers_from_module(policy)"
        if steps := episodes_in(self.case.smaller):
            self.writer.uses("torchrl.envs", "StepCounter")
            yield f'StepCounter(max_steps={steps}, step_count_key="steps_of_the_episode")'

    def _at(self, at: KeyPath) -> MadeCall:
        if at not in self._by_place:
            raise CaseError(f"{'.'.join(map(str, at))} was not built")
        return self._by_place[at]

    def _say(self, text: str) -> None:
        self._lines += folded(text)

    def _first_time(self, part: str) -> bool:
        new = part not in self._done
        self._done.add(part)
        return new


_NUMBERED = [
    "for number, one in enumerate(batches):",
    '    one["step"] = number * one.numel() + torch.arange(one.numel()).view(one.shape)',
]


def _as_key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
