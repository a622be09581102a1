# What the lazy names of __init__.py are, for type checkers and editors.
from rnncheck.api import memory as memory
from rnncheck.api import verify as verify
from rnncheck.errors import FindingsError as FindingsError
from rnncheck.errors import UserError as UserError
from rnncheck.results.model import Run as Run
from rnncheck.watching.session import watch as watch

__version__: str
