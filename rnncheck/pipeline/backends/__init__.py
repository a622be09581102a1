"""Backends of TorchRL's LSTMModule and GRUModule as values: which can run here, how to get one,
what it gives."""
