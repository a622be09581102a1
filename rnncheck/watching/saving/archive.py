"""The file of a saved run: a zip of one JSON and the bytes of the tensors, of bounded size."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rnncheck.errors import Place, UserError
from rnncheck.results.files import replace_bytes
from rnncheck.results.stranger import MAX_SIZE, strict_json
from rnncheck.watching.saving.encoding import MOST_BYTES

FORMAT = 1  # of SavedRun; raised when an old file would be read as something else
_TOLD, _DATA = "saved.json", "tensors.bin"
_ACCEPTED = "a file that `rnncheck run --save FILE` wrote"
_MOST_PLACES = 1000  # losses, estimators and transforms that are listed
Text = Annotated[str, Field(max_length=10_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SavedPart(_Strict):
    """One that acted, or was called: its ``form`` and where that was."""

    path: Text
    line: int = Field(ge=0)
    form: Any


class SavedRun(_Strict):
    """What a script was seen to do. ``lost`` is what could not be kept, by stage, and why."""

    format: Literal[1] = 1
    rnncheck: Text
    torchrl: Text
    name: Text = Field(min_length=1)
    hash: Text
    seed: int = Field(ge=0, lt=2**31)
    device: Text
    module: Text
    folder: str = Field(max_length=4096, pattern=r"^[^\x00]*$")  # of the module, from this file's
    sources: dict[str, Text]
    outcome: Text
    detail: Text
    updates: int = Field(ge=0)
    backwards: int = Field(ge=0)
    steps: int = Field(ge=0, default=0)  # of any optimiser
    env_steps: int = Field(ge=0, default=0)
    recurrent: dict[str, int] = Field(default_factory=dict)
    layers: dict[str, int] = Field(default_factory=dict)
    plain: Text = ""
    unseen: Text = ""
    unjudged: dict[str, Text]
    with_memory: list[Text] = Field(default_factory=list, max_length=_MOST_PLACES)
    lost: dict[str, Text]
    acting: SavedPart | None
    losses: list[SavedPart] = Field(max_length=_MOST_PLACES)
    passes: list[SavedPart] = Field(default_factory=list, max_length=_MOST_PLACES)
    estimators: list[SavedPart] = Field(max_length=_MOST_PLACES)
    transforms: list[SavedPart] = Field(max_length=_MOST_PLACES)
    nodes: list[Any]
    globals: dict[str, Any] = Field(default_factory=dict)  # of the module, beside what it defines


def write_saved(saved: SavedRun, data: bytes, path: Path) -> None:
    """Write it whole, or leave what was there."""
    told = json.dumps(saved.model_dump(), allow_nan=False)
    if len(told) > MAX_SIZE:
        said = f"what was seen takes more than {MAX_SIZE // 2**20} MiB beside its tensors"
        raise UserError(said, place=Place(str(path)), hint="run it without --save")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(_TOLD, told)
        file.writestr(_DATA, data)
    replace_bytes(path, buffer.getvalue())


def read_saved(path: Path) -> tuple[SavedRun, bytes]:
    """What the file holds. Raises UserError, one sentence, for whatever is wrong with it."""
    place = Place(str(path))
    try:
        with zipfile.ZipFile(path) as file:
            told = _bounded(file, _TOLD, MAX_SIZE, place)
            data = _bounded(file, _DATA, MOST_BYTES, place)
        text = told.decode("utf-8")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, NotImplementedError, EOFError) as e:
        said = f"this is no saved run: {type(e).__name__}: {e}"
        raise UserError(said, place=place, accepted=_ACCEPTED) from e
    except Exception as error:  # zlib's, on bytes that are none of its own
        raise UserError("this is no saved run", place=place, accepted=_ACCEPTED) from error
    plain = strict_json(text, place, _ACCEPTED)
    if isinstance(plain, dict) and plain.get("format") != FORMAT:
        said = f"this has format {plain.get('format')!r:.40}, and this rnncheck reads {FORMAT}"
        hint = "save the run again with this rnncheck"
        raise UserError(said, place=place, accepted=_ACCEPTED, hint=hint)
    try:
        return SavedRun.model_validate(plain), data
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"this is no saved run: {where}: {first['msg']}"
        raise UserError(said, place=place, accepted=_ACCEPTED) from None


def _bounded(file: zipfile.ZipFile, name: str, most: int, place: Place) -> bytes:
    with file.open(name) as entry:
        found = entry.read(most + 1)
    if len(found) > most:
        said = f"{name} in this is larger than {most // 2**20} MiB"
        raise UserError(said, place=place, accepted=_ACCEPTED)
    return found
