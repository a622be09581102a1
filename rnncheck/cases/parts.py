"""A case of each cause of what Python handed to ``rnncheck.verify``: the parts themselves, in the
forms in which a saved run has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from rnncheck.cases.behind import Behind, now
from rnncheck.cases.model import CaseError, Extent, Reduction, StoredCase, StoredParts, seen_in
from rnncheck.cases.rerun import OneCheck, Rerun, asked_again, importing, problem_of, repeats
from rnncheck.cases.store import TENSOR_FILE, case_id, write_case
from rnncheck.cases.tensors import Inputs, Packed, read_inputs, read_tensors
from rnncheck.checks.engine.select import select_rules
from rnncheck.checks.rule import Rule
from rnncheck.errors import Place
from rnncheck.pipeline.assembly.live import spec_of
from rnncheck.results.environment import current_environment
from rnncheck.results.events import Event
from rnncheck.results.model import CheckResult, Stage
from rnncheck.spec.dump import plain_spec
from rnncheck.spec.model import Spec
from rnncheck.spec.settings import VerifySpec
from rnncheck.watching.saving.again import folders_of
from rnncheck.watching.saving.decoding import Decoder
from rnncheck.watching.saving.encoding import Encoder
from rnncheck.watching.saving.env_forms import maker_form
from rnncheck.watching.saving.import_paths import CannotKeep, home_of_main

_TENSOR = "parts"  # whose bytes are those of all tensors in the parts


@dataclass(frozen=True)
class PartsKeeping:
    """What is kept of a run of ``spec``, which was made of live ``parts``."""

    spec: Spec
    parts: Mapping[str, Any]
    rules: Sequence[Rule]
    thorough: bool = False
    strict: bool = False

    def events(self, run: Iterator[Event]) -> Iterator[Event]:
        """The events of a verification, then what is stored."""
        yield from Behind(self.rules, self._kept, self.strict, "storing the case of").events(run)

    def _kept(self, rule: Rule, result: CheckResult, _: frozenset[Stage]) -> str:
        """Store the case of a failed ``result``; its id. Raises CaseError where the parts cannot be
        kept, or do not show it again."""
        forms, data = self._forms()
        home = self.spec.folder if self.spec.folder.is_dir() else Path.cwd()
        blank = self._case(rule, result, forms)

        def ask(inputs: Inputs | None) -> Rerun:
            return _asked(blank, forms, data, home / blank.spec_file, inputs)

        first = ask(None)
        if first.reason != blank.seen.reason:
            said = f": {first.problem}" if first.problem else ""
            raise CaseError(f"it did not fail again when the same was built once more{said}")
        packed = Packed({_TENSOR: torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)})
        case = self._whole(blank, first, packed, repeats=repeats(ask, first))
        write_case(case, home, lambda at: packed.write(at / TENSOR_FILE))
        return case.id

    def _forms(self) -> tuple[StoredParts, bytes]:
        encoder = Encoder(home_of_main(), {})
        forms = {}
        for name, part in self.parts.items():
            try:
                made = maker_form(encoder, part) if name == "env" else encoder.whole(part)
            except Exception as error:  # an object of the user's may raise anything
                said = str(error) if isinstance(error, CannotKeep) else problem_of(error)
                raise CaseError(f"the {name} cannot be kept: {said}") from error
            forms[name] = made
        verify = self.spec.verify
        told = StoredParts(
            forms, encoder.nodes, self.spec.device, verify.steps, verify.timeout, verify.backends
        )
        return told, bytes(encoder.data)

    def _case(self, rule: Rule, result: CheckResult, parts: StoredParts) -> StoredCase:
        spec, file = self.spec, Path(self.spec.path).name
        return StoredCase(
            id=case_id(rule.code, file, spec.name, spec.hash),
            code=rule.code,
            name=rule.name,
            stage=rule.stage,
            seen=seen_in(result),
            spec_file=file,
            spec=plain_spec(spec),
            spec_hash=spec.hash,
            given=(),
            smaller=(),
            seed=spec.seed,
            thorough=self.thorough,
            repeats=True,
            environment=current_environment(spec.device),
            created=now(),
            reduction=Reduction(Extent()),
            parts=parts,
        )

    def _whole(
        self, case: StoredCase, first: Rerun, packed: Packed, *, repeats: bool
    ) -> StoredCase:
        """The case with what it was asked on."""
        return replace(
            case,
            repeats=repeats,
            reduction=Reduction(first.extent),
            collected=packed.batches(first.inputs.collected),
            trained=packed.batches(first.inputs.trained),
            weights=packed.weights(first.inputs.weights),
        )


def parts_again(
    case: StoredCase, parts: StoredParts, folder: Path, file: Path
) -> tuple[Rerun, str]:
    """Ask the check of the stored parts, whose modules lie beside ``file``; with what was run, in
    words. Raises CaseError where they cannot be read."""
    tensors = folder / TENSOR_FILE
    data = read_tensors(tensors).get(_TENSOR)
    if data is None or data.dtype != torch.uint8:
        raise CaseError("the case holds no parts", place=Place(str(tensors)))
    inputs = None if case.repeats else read_inputs(case, tensors)
    ran = "the parts that were stored, with your code as it is now"
    return _asked(case, parts, data.numpy().tobytes(), file, inputs), ran


def _asked(
    case: StoredCase, parts: StoredParts, data: bytes, file: Path, inputs: Inputs | None
) -> Rerun:
    """Make the parts again, and ask the check of them."""
    home = file.parent.resolve()
    with importing(home):
        try:
            decoder = Decoder(parts.nodes, data, folders_of(home, "."))
            spec = spec_of(
                {name: decoder.whole(form) for name, form in parts.form.items()},
                name=str(case.spec.get("name", "")) or "pipeline",
                seed=case.seed,
                device=parts.device,
                verify=VerifySpec(
                    steps=parts.steps, timeout=parts.timeout, backends=parts.backends
                ),
                place=Place(str(file)),
            )
        except Exception as error:  # an import, a class or a copy may raise anything
            return Rerun(problem=problem_of(error))
        (rule,) = select_rules(spec, [case.code])
        return asked_again(spec, rule, OneCheck(case.thorough, stored=inputs))
