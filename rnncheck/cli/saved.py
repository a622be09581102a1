"""``rnncheck verify FILE`` of what ``rnncheck run --save FILE`` kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rnncheck.results.events import Event
    from rnncheck.results.model import Stage
    from rnncheck.spec.model import Spec

_ZIP = b"PK\x03\x04"  # what a zip file begins with


@dataclass(frozen=True)
class Asking:
    """Which checks are asked, and how."""

    select: list[str] | None
    ignore: list[str] | None
    stage: list[Stage] | None
    backends: tuple[str, ...]
    seed: int | None
    thorough: bool
    strict: bool


def is_zip(path: Path) -> bool:
    """Whether it is a saved run, or was one before it was cut off: a spec is a text."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ZIP)) == _ZIP
    except (OSError, ValueError):
        return False


def refuse_for_saved(path: Path, options: Mapping[str, Any]) -> None:
    """Raise a UserError for an option that says nothing of a saved run."""
    from rnncheck.errors import Place, UserError

    for name, given in options.items():
        if given:
            said = f"{name} is for specs, and this is what `rnncheck run --save` kept"
            raise UserError(said, place=Place(str(path)), hint=f"leave {name} out")


def saved_source(path: Path, asking: Asking) -> tuple[Spec, Callable[[bool], Iterator[Event]]]:
    """What stands for its spec before it is read, and what makes the events, given whether a report
    has pictures."""
    from rnncheck.spec.settings import VerifySpec
    from rnncheck.spec.watched import unseen

    settings = VerifySpec(backends=asking.backends, strict=asking.strict)

    def events(draws: bool) -> Iterator[Event]:
        from rnncheck.checks.engine.select import select_rules
        from rnncheck.exhibits.collect import Illustration
        from rnncheck.watching.saving.again import saved_events, saved_spec

        asked, saved, data = saved_spec(path, asking.seed, settings)
        rules = select_rules(asked, asking.select or [], asking.ignore or [], asking.stage or ())
        return saved_events(
            path,
            asked,
            (saved, data),
            rules,
            thorough=asking.thorough,
            strict=asking.strict,
            illustrate=Illustration(draws),
        )

    return unseen(str(path), asking.seed or 0, settings), events
