"""What a sweep times: one cell of the user's policy, as a call, with its accuracy against the
float64 oracle."""

from rnncheck.errors import RnncheckError


class CannotRun(RnncheckError):
    """A cell that cannot run here, for a reason that is known before it is tried."""
