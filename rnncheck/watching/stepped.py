"""Which of the weights that a loss trains no optimiser of the script has, and which the script's
own backward gives a gradient."""

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


def learning_names(seen: Sightings, called: Called) -> list[str]:
    """In the loss the names of weights with a gradient that was not zero, ahead of an update."""
    if called.learning is not None:
        return called.learning
    held = trained_parameters(called.module)
    return [name for name, weight in held.items() if id(weight) in seen.learning]


def learning_weights(seen: Sightings, losses: Iterable[Called]) -> frozenset[str]:
    """Those of all the losses, by name."""
    return frozenset(name for called in losses for name in learning_names(seen, called))


def unstepped_weights(seen: Sightings, losses: Iterable[Called]) -> frozenset[str] | None:
    """Those of all the losses, by name; None where optimisers have none of their weights, as with
    updates that a script makes by hand."""
    found, stepped = set[str](), False
    for called in losses:
        names = unstepped_names(seen, called)
        found |= set(names)
        stepped = stepped or len(names) < len(trained_parameters(called.module))
    return frozenset(found) if stepped else None
