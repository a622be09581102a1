"""Transforms of our own that stand in for TorchRL's where an optional package is missing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torchrl.envs.transforms import ObservationTransform

ANTIALIASED = ("bilinear", "bicubic")


class InterpolateResize(ObservationTransform):
    """TorchRL's ``Resize`` by way of torch.nn.functional.interpolate, for machines without
    torchvision.

    Takes the same arguments and gives the same shape: the last two dimensions become ``(w, h)``.
    """

    def __init__(
        self,
        w: int,
        h: int | None = None,
        interpolation: str = "bilinear",
        in_keys: list[Any] | None = None,
        out_keys: list[Any] | None = None,
    ) -> None:
        keys = ["pixels"] if in_keys is None else in_keys
        super().__init__(in_keys=keys, out_keys=list(keys) if out_keys is None else out_keys)
        self.size = (int(w), int(w if h is None else h))
        self.interpolation = interpolation

    def _apply_transform(self, obs: Tensor) -> Tensor:
        if obs.shape[-2:] == torch.Size(self.size):
            return obs
        if obs.ndim < 3:
            raise ValueError(f"Resize needs [..., C, H, W], not shape {list(obs.shape)}")
        flat = obs.reshape(-1, *obs.shape[-3:])
        smooth = self.interpolation in ANTIALIASED
        sized = interpolate(
            flat if flat.is_floating_point() else flat.float(),
            self.size,
            mode=self.interpolation,
            antialias=smooth,
            align_corners=False if smooth else None,
        )
        inside = sized.clamp(flat.min(), flat.max())  # rounding must not leave the spec's bounds
        return self._in_dtype(inside, obs.dtype).reshape(*obs.shape[:-2], *self.size)

    @staticmethod
    def _in_dtype(sized: Tensor, dtype: torch.dtype) -> Tensor:
        return sized if dtype.is_floating_point else sized.round().to(dtype)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        for source, target in zip(self.in_keys, self.out_keys, strict=True):
            if source in observation_spec.keys(True, True):
                observation_spec[target] = self._resized(observation_spec[source])
        return observation_spec

    def _resized(self, spec: Any) -> Any:
        from torchrl.data import Bounded, Unbounded

        shape = torch.Size([*spec.shape[:-2], *self.size])
        space = spec.space
        if space is None or not hasattr(space, "low") or isinstance(spec, Unbounded):
            return Unbounded(shape=shape, dtype=spec.dtype, device=spec.device)
        low, high = space.low.min(), space.high.max()
        return Bounded(low, high, shape=shape, dtype=spec.dtype, device=spec.device)
