"""The types of a spec's values, and what all its parts share."""

from __future__ import annotations

import datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic import Strict as Exactly
from pydantic_core import PydanticCustomError

# YAML has types of its own, so nothing is converted: `workers: "2"` and `seed: true` are mistakes.
Int = Annotated[int, Exactly()]
Bool = Annotated[bool, Exactly()]
Number = Annotated[float, Exactly(), Field(allow_inf_nan=False)]


def _written_date(value: object) -> object:
    """YAML's own dates arrive as text; a number is no date, whatever second of 1970 it names."""
    if not isinstance(value, str | datetime.date):
        raise PydanticCustomError("date_type", "not a date")
    return value


Day = Annotated[
    datetime.date,
    BeforeValidator(_written_date),
    Field(json_schema_extra={"pattern": r"^\d{4}-\d{2}-\d{2}$"}),
]


# These refuse slips: no CI job lives longer, and a thousand bytes a step fill 256 GiB.
WEEK = 7 * 86_400.0  # seconds
LARGEST_SHAPE = 2**28  # steps of one call


class Strict(BaseModel):
    """Base of the spec's own sections: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
