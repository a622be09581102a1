"""Verifies recurrent TorchRL pipelines: nothing crosses a reset, nothing is forgotten in between."""

__version__ = "0.1.0"
