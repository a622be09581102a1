"""How much rounding a variant may honestly make: the dtype whose precision its products have."""

from __future__ import annotations

import torch

from rnncheck.pipeline.backends.facts import torch_dtype
from rnncheck.results.variant import Variant

_TF32 = torch.float16  # tf32 keeps the 10 bits of float16's mantissa


def rounding_dtype(variant: Variant, device: str) -> torch.dtype:
    """The coarsest dtype that a run of ``variant`` on ``device`` computes in."""
    own = torch_dtype(variant.dtype)
    if own is not torch.float32:
        return own
    if variant.backend == "triton" and variant.compute_dtype == "bfloat16":
        return torch.bfloat16
    return _TF32 if device.startswith("cuda") and _uses_tf32(variant) else own


def _uses_tf32(variant: Variant) -> bool:
    """Whether float32 products are rounded to tf32 on CUDA, by cuDNN, cuBLAS or Triton's
    kernels."""
    if variant.backend == "triton":
        from torchrl.modules.tensordict_module import _rnn_precision

        return str(_rnn_precision._resolve_precision(variant.matmul_precision)) == "tf32"
    by_cublas = torch.backends.cuda.matmul.allow_tf32
    return by_cublas or (variant.backend in ("pad", "auto") and torch.backends.cudnn.allow_tf32)
