"""Lines of the user's that make advantages, returns or targets of a batch, as a value estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensordict import TensorDictBase
from torchrl.modules import set_recurrent_mode

from rnncheck.errors import StageError
from rnncheck.pipeline.copying.restoring import Restored
from rnncheck.pipeline.instruments.own_loss import TrainStep
from rnncheck.pipeline.keys import Key, tensor_keys


class OwnEstimates:
    """``function`` gives a batch with the entries ``keys`` for one without, in the mode that the
    lines around it had set; it leaves no trace."""

    def __init__(
        self,
        function: Callable[[TensorDictBase], object],
        keys: Sequence[Key],
        *,
        recurrent: bool | None,
    ) -> None:
        self.function, self.keys, self.recurrent = function, list(keys), recurrent

    def __call__(self, td: TensorDictBase) -> TensorDictBase:
        """The batch with the entries. Raises StageError where they are not there afterwards."""
        given = td.clone()
        with Restored(self.function), TrainStep(), set_recurrent_mode(self.recurrent):
            made = self.function(given)
        if not isinstance(made, TensorDictBase) or made.batch_size != td.batch_size:
            raise StageError("advantage", "the lines ahead of the loss gave another batch back")
        missing = set(self.keys) - set(tensor_keys(made))
        if missing:
            named = ", ".join(sorted(".".join(key) for key in missing))
            raise StageError("advantage", f"the lines ahead of the loss did not make {named}")
        return td.clone().update(made.select(*self.keys).detach())
