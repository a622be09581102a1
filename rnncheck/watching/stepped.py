"""Which of the weights that a loss trains no optimiser of the script has."""

from __future__ import annotations

from collections.abc import Iterable

from rnncheck.pipeline.copying.holdings import trained_parameters
from rnncheck.watching.seen import Called, Sightings


def unstepped_names(seen: Sightings, called: Called) -> list[str]:
    """Their names in the loss."""
    if called.unstepped is not None:
        return called.unstepped
    held = trained_parameters(called.module)
    return [name for name, weight in held.items() if id(weight) not in seen.stepped]


def unstepped_weights(seen: Sightings, losses: Iterable[Called]) -> frozenset[str] | None:
    """Those of all the losses, by name; None where optimisers have none of their weights, as with
    updates that a script makes by hand."""
    found, stepped = set[str](), False
    for called in losses:
        names = unstepped_names(seen, called)
        found |= set(names)
        stepped = stepped or len(names) < len(trained_parameters(called.module))
    return frozenset(found) if stepped else None
