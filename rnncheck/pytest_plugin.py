"""``pytest --rnncheck rnncheck.yaml``: one test for each check, and a fixture for factories of
one's own.

    rnncheck.yaml::BD301 state-crosses-reset

The pipeline of a spec is built once, when its first test runs, and closed after its last one. A
check without an answer skips its test with the reason; what that leaves unshown fails the test
``guarantees``. A warning passes with a pytest warning. Nothing heavy is imported without a use.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from rnncheck.checks.engine.session import Seen
    from rnncheck.checks.engine.verification import Verification
    from rnncheck.checks.rule import Rule
    from rnncheck.results.model import CheckResult, Run
    from rnncheck.spec.model import Spec

OPTION = "rnncheck"


class RnncheckWarning(UserWarning):
    """A check of severity warning failed."""


class CheckFailed(Exception):
    """A check failed or crashed; the text is what the console shows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--rnncheck SPEC``, several times if wanted."""
    group = parser.getgroup("rnncheck", "recurrent pipelines")
    group.addoption(
        "--rnncheck",
        action="append",
        default=[],
        dest=OPTION,
        metavar="SPEC",
        help="collect one test for each rnncheck check of this spec file; repeatable",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The spec files join what is collected, unless the command line names tests of theirs
    already; without any, nothing of ours is asked about the files of others."""
    wanted = [_spec_file(config, value) for value in config.getoption(OPTION)]
    named = {_resolved(config, arg.partition("::")[0]) for arg in config.args} if wanted else set()
    config.args += [str(path) for path in wanted if path not in named]
    if wanted:
        config.pluginmanager.register(SpecCollecting(frozenset(wanted)), "rnncheck-specs")


def _spec_file(config: pytest.Config, value: str) -> Path:
    path = _resolved(config, value)
    if not path.is_file():
        raise pytest.UsageError(f"--rnncheck {value}: there is no such file")
    return path


def _resolved(config: pytest.Config, path: str) -> Path:
    return (config.invocation_params.dir / path).resolve()


@dataclass(frozen=True)
class SpecCollecting:
    """Collects the spec files that ``--rnncheck`` names; registered where there are any."""

    wanted: frozenset[Path]

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> SpecFile | None:
        """Only files with such a name are looked up."""
        if file_path.name not in {path.name for path in self.wanted} and not file_path.is_symlink():
            return None
        if file_path.resolve() not in self.wanted:
            return None
        made: SpecFile = SpecFile.from_parent(parent, path=file_path)
        return made


class SpecFile(pytest.File):
    """A spec: its checks are its tests, its pipeline lives from the first to the last of them."""

    verification: Verification
    seen: Seen

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each check that the spec's own ``select`` and ``ignore`` leave, and one for
        what they show together."""
        from rnncheck.checks.engine.select import select_entries
        from rnncheck.errors import UserError

        spec = self.spec()
        try:
            chosen = select_entries(spec, spec.verify.select, spec.verify.ignore)
        except UserError as error:
            raise self.CollectError(str(error)) from None
        for entry in chosen:
            yield CheckItem.from_parent(self, name=f"{entry.code} {entry.name}")
        yield GuaranteesItem.from_parent(self, name="guarantees")

    def spec(self) -> Spec:
        """The spec; what is wrong with it is a collection error in its own words."""
        from rnncheck.errors import UserError
        from rnncheck.spec.load import load_spec

        try:
            return load_spec(self.path)
        except UserError as error:
            raise self.CollectError(str(error)) from None

    def setup(self) -> None:
        """Build the pipeline and run its stages."""
        from rnncheck.checks.engine.session import Seen
        from rnncheck.checks.engine.verification import Verification
        from rnncheck.errors import UserError

        self.seen = Seen()
        try:
            self.verification = Verification(self.spec())
            scope = ExitStack()
            self.addfinalizer(scope.close)
            scope.enter_context(self.verification)
            for _ in self.seen.hearing(self.verification.build()):
                pass
            self.verification.expect(self.rules())
        except UserError as error:
            raise CheckFailed(str(error)) from None
        if not (self.verification.runs or self.verification.lacking):
            raise CheckFailed(self.trouble())

    def rules(self) -> tuple[Rule, ...]:
        """All that the spec asks."""
        from rnncheck.checks.engine.select import select_rules

        spec = self.verification.spec
        return select_rules(spec, spec.verify.select, spec.verify.ignore)

    def trouble(self) -> str:
        """What the stages raised; empty when they ran."""
        raised = self.verification.failures.values()
        return "\n".join(f"the pipeline raised in {error}" for error in raised)

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Our own sentences instead of a traceback through this file."""
        return _told(excinfo) or super().repr_failure(excinfo)


class CheckItem(pytest.Item):
    """One check."""

    parent: SpecFile

    def runtest(self) -> None:
        """Ask the check and turn its outcome into a test's."""
        from rnncheck.checks.engine.select import select_rules

        if self.parent.verification.lacking:
            pytest.skip(self.parent.verification.lacking)
        (rule,) = select_rules(self.parent.verification.spec, [self.name.partition(" ")[0]])
        self._conclude(self.parent.verification.asked(rule))

    def _conclude(self, result: CheckResult) -> None:
        from rnncheck.results.model import Outcome

        strict = self.parent.verification.spec.verify.strict
        if result.fails(strict=strict) or result.outcome is Outcome.ERROR:
            raise CheckFailed(failure_text(result, self.parent.trouble()))
        if result.accepted:
            pytest.xfail(f"accepted: {result.accepted}")
        if result.outcome is Outcome.FAILED:
            warnings.warn(failure_text(result), RnncheckWarning, stacklevel=1)
        elif result.outcome is not Outcome.PASSED:
            if trouble := self.parent.trouble():  # a pipeline that broke must not look verified
                raise CheckFailed(trouble)
            pytest.skip(f"{str(result.outcome).replace('-', ' ')}: {result.reason}")

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """The finding's text instead of a traceback through the checks."""
        return _told(excinfo) or super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The spec and the check, for the report's heading."""
        return self.path, None, self.name


class GuaranteesItem(pytest.Item):
    """What all checks show together: fails where a guarantee is not shown."""

    parent: SpecFile

    def runtest(self) -> None:
        """Judge the guarantees by every check of the spec; those that ran are not run again."""
        from rnncheck.results.guarantees import judge_guarantees

        verification, strict = self.parent.verification, self.parent.verification.spec.verify.strict
        checks = [verification.asked(rule) for rule in self.parent.rules()]
        judged = judge_guarantees(checks, self.parent.seen.stages, strict=strict)
        found = [verification.accepting.standing(one) for one in judged]
        if lacking := [one for one in found if one.lacking]:
            told = (f"{one.name} is not shown, because {one.because}" for one in lacking)
            raise CheckFailed("\n".join(told))

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """Our own sentences instead of a traceback through this file."""
        return _told(excinfo) or super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The spec, for the report's heading."""
        return self.path, None, self.name


def _told(excinfo: ExceptionInfo[BaseException]) -> str:
    return str(excinfo.value) if isinstance(excinfo.value, CheckFailed) else ""


def failure_text(result: CheckResult, trouble: str = "") -> str:
    """A check's findings as the console shows them, or why it crashed."""
    from rnncheck.report.console import render_check

    if result.findings:
        return render_check(result)
    return "\n".join(filter(None, [f"{result.code} {result.name}: {result.reason}", trouble]))


@pytest.fixture
def rnncheck_verify() -> Callable[..., Run]:
    """``rnncheck.verify`` that fails the test with what was found; returns the Run.

    def test_my_policy(rnncheck_verify):
        rnncheck_verify(policy=make_policy, env=make_env)
    """
    from rnncheck.api import verify

    def run(*args: Any, **kwargs: Any) -> Run:
        done = verify(*args, **kwargs)
        done.raise_for_findings()
        return done

    return run
