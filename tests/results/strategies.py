"""Any run at all, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rnncheck.results.encode import NON_FINITE
from rnncheck.results.model import FORMAT, Run

TEXT = st.text(max_size=8)
NUMBERS = st.floats() | st.integers(min_value=-(2**53), max_value=2**53)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT.filter(lambda value: value not in NON_FINITE),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
RUNS = st.builds(
    Run,
    cells=st.lists(st.dictionaries(TEXT, VALUES, max_size=2), max_size=2).map(tuple),
    format=st.just(FORMAT),
)
