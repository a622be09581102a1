"""The only place that knows TorchRL."""
