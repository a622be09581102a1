"""What the tests need of a processor without AVX-512: how it is pretended, and what it does."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

# oneDNN and torch read them when they are loaded, so that they are for another process alone.
PLAIN = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")  # elsewhere they have no effect
ROOT = Path(__file__).parent.parent

# torch alone, without rnncheck: what each layer does, in words.
LAYERS = """\
import json
import torch

def tried(kind, dtype, autocast):
    own = torch.float32 if autocast else dtype
    try:
        layer, inputs = kind(3, 5).to(own), torch.ones(2, 1, 3, dtype=own)
        with torch.autocast("cpu", dtype=dtype, enabled=autocast):
            with torch.no_grad():
                layer(inputs)
            out = layer(inputs)[0]
        out.sum().backward()
    except RuntimeError as error:
        return str(error)
    return ""

print(json.dumps({
    f"{str(dtype)[6:]} {kind.__name__}" + autocast * " under autocast": tried(kind, dtype, autocast)
    for dtype in (torch.bfloat16, torch.float16)
    for kind, autocast in ((torch.nn.LSTM, False), (torch.nn.GRU, False), (torch.nn.LSTM, True))
}))
"""


@functools.cache
def said_by(program: str, **variables: str) -> Any:
    """What a Python program prints last, read as JSON."""
    env = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])
