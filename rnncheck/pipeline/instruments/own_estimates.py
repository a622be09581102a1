"""Lines of the user's that make advantages, returns or targets of a batch, as a value estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from tensordict import TensorDictBase
from torchrl.modules import set_recurrent_mode

from rnncheck.errors import StageError
from rnncheck.pipeline.copying.restoring import Restored
from rnncheck.pipeline.instruments.own_loss import TrainStep
from rnncheck.pipeline.keys import Key, tensor_keys


class OwnEstimates:
    """``function`` gives a batch with the entries ``keys`` for one without, in the mode that the
    lines around it had set.

    It leaves no trace, so that it stands for its own copy: what the lines can reach may be a whole
    trainer, with files and processes. ``axis`` is the dimension that is time in the lines' own
    batches; batches have it last here. The lines run ``within`` such a context.
    """

    def __init__(
        self,
        function: Callable[[TensorDictBase], object],
        keys: Sequence[Key],
        *,
        recurrent: bool | None,
        axis: int | None = None,
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.function, self.keys, self.recurrent = function, list(keys), recurrent
        self.axis, self.within = axis, within

    def __deepcopy__(self, _memo: object) -> OwnEstimates:
        return self

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        """The batch with the entries. Raises StageError where they are not there afterwards."""
        given = _moved(td, td.batch_dims - 1, self.axis).clone()
        mode = set_recurrent_mode(self.recurrent)
        with Restored(self.function), self.within(), TrainStep(), mode:
            made = self.function(given)
        if not isinstance(made, TensorDictBase) or made.batch_size != given.batch_size:
            raise StageError("advantage", "the lines ahead of the loss gave another batch back")
        missing = set(self.keys) - set(tensor_keys(made))
        if missing:
            named = ", ".join(sorted(".".join(key) for key in missing))
            raise StageError("advantage", f"the lines ahead of the loss did not make {named}")
        found = made.select(*self.keys).detach()
        return td.clone().update(_moved(found, self.axis, td.batch_dims - 1))


def _moved(batch: TensorDictBase, source: int | None, to: int | None) -> TensorDictBase:
    """The batch with dimension ``source`` at ``to``; as it is where one of them is None."""
    if source is None or to is None:
        return batch
    order = [dim for dim in range(batch.batch_dims) if dim != source]
    order.insert(to, source)
    turned: TensorDictBase = batch.permute(*order).contiguous()
    return turned
