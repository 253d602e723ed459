"""Python functions of the user: the text of their module is run once per process; they are called with Arrow arrays.

Spark's Python workers call them, and so does the process that answers a question (``ds query``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_dagster.errors import DsError, error

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class PythonCode:
    """A function in the text of a module.

    Attributes:
        shown: the function in messages.
        root: folder from which the module imports others.
        file: path of the module, for tracebacks.
        text: of the module.
        entry: name of the function in it.
    """

    shown: str
    root: str
    file: str
    text: str
    entry: str


def by_row(code: PythonCode, columns: Sequence[pyarrow.Array], type_: pyarrow.DataType) -> pyarrow.Array:
    """The function's result for every row; NULL is None."""
    function = loaded(code)
    rows = zip(*[column.to_pylist() for column in columns], strict=True)
    return _array(code, _called(code, lambda: [function(*row) for row in rows]), type_)


def vectorized(code: PythonCode, columns: Sequence[pyarrow.Array], type_: pyarrow.DataType) -> pyarrow.Array:
    """One call for all rows of a batch."""
    import pyarrow

    function = loaded(code)
    array = _called(code, lambda: function(*columns))
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    if not isinstance(array, pyarrow.Array) or len(array) != len(columns[0]):
        raise error(
            "FUNCTION_FAILED", function=code.shown, reason="it did not return an Arrow array with one element per row"
        )
    return array if array.type == type_ else _array(code, array.to_pylist(), type_)


def _called(code: PythonCode, call: Callable[[], Any]) -> Any:
    """The result of user code; its exception is reported by class and line, since its text may hold data."""
    try:
        return call()
    except Exception as problem:  # noqa: BLE001, whatever the code of the user raises
        raise error("FUNCTION_FAILED", function=code.shown, reason=_place(code, problem)) from None


def _place(code: PythonCode, problem: Exception) -> str:
    line, trace = None, problem.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == code.file else line
        trace = trace.tb_next
    where = f" in line {line}" if line is not None else ""
    return f"{type(problem).__name__}{where} of {Path(code.file).name}"


def _array(code: PythonCode, values: Sequence[object], type_: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow

    try:
        return pyarrow.array(values, type=type_)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        raise error(
            "FUNCTION_FAILED", function=code.shown, reason=f"it gave a value that is not a valid {type_}"
        ) from None


@lru_cache(maxsize=256)
def loaded(code: PythonCode) -> Callable[..., Any]:
    """The function, its module run once per worker process.

    Raises:
        UserError: FUNCTION_FAILED.
    """
    if code.root not in sys.path:
        sys.path.append(code.root)
    names: dict[str, Any] = {"__name__": Path(code.file).stem, "__file__": code.file}
    try:
        exec(compile(code.text, code.file, "exec"), names)
    except DsError:
        raise
    except Exception as problem:  # noqa: BLE001, whatever the code of the user raises
        raise error("FUNCTION_FAILED", function=code.shown, reason=_place(code, problem)) from None
    function: Callable[..., Any] = names[code.entry]
    return function
