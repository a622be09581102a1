"""The only place that knows TorchRL."""

from rnncheck.pipeline.backends.variable import check_variable

check_variable()  # TorchRL reads it while it is imported, and would raise there
