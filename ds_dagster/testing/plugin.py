"""pytest collects every ``*.case.yaml`` as one test. Spark is imported when the first case has to run, not before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_dagster.testing.case import CaseResult

SUFFIX = ".case.yaml"
_OPTION = "--update-cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--update-cases``."""
    parser.getgroup("ds_dagster").addoption(
        _OPTION, action="store_true", default=False, help="SQL test cases rewrite their golden files"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """One collector per case file."""
    return CaseFile.from_parent(parent, path=file_path) if file_path.name.endswith(SUFFIX) else None


def pytest_unconfigure() -> None:
    """End the Spark session, if a case started it."""
    import sys

    session = sys.modules.get("ds_dagster.testing.session")
    if session is not None:
        session.end_session()


class CaseFile(pytest.File):
    """A case file: one item."""

    def collect(self) -> Iterable[pytest.Item]:
        """The case."""
        yield CaseItem.from_parent(self, name="case")


class CaseFailedError(Exception):
    """Raised with the result of a case that failed, for pytest's report."""

    def __init__(self, result: CaseResult) -> None:
        self.result = result
        super().__init__("\n".join(failure.text for failure in result.failures))


class CaseItem(pytest.Item):
    """Runs its case in the Spark session that all cases of this process share."""

    def runtest(self) -> None:
        """Run the case; raises :class:`CaseFailedError` if it has failures."""
        from ds_dagster.testing.runner import run_case
        from ds_dagster.testing.session import shared_session

        update = bool(self.config.getoption(_OPTION))
        result = run_case(self.path, shared_session, root=self.config.rootpath, update=update)
        if not result.ok:
            raise CaseFailedError(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The differences alone; anything unexpected with its traceback."""
        if not isinstance(excinfo.value, CaseFailedError):
            return super().repr_failure(excinfo, style)
        from ds_dagster.testing.report import failure_text

        return failure_text(excinfo.value.result)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Place and name in reports."""
        return self.path, 0, self.path.name.removesuffix(SUFFIX)
