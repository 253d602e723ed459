"""Checks of constants in expressions, made when an expression is bound, so that no query stops at run time for a
constant that never works. A check imports its module when it runs, so that projects without such constants load
without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlglot import exp

from ds_dagster.datatypes import FLOATS, VARCHAR, ArrayType, DataType, Scalar, is_numeric
from ds_dagster.functions.constants import CHARSETS, OWN_MARKS, PRECISIONS, Constant, ConstantKind
from ds_dagster.functions.function import Function
from ds_dagster.names import nearest
from ds_dagster.plan.expressions.bound_trees import Typed
from ds_dagster.plan.expressions.forms import written_name
from ds_dagster.plan.expressions.printing import expression_text

if TYPE_CHECKING:
    from ds_dagster.plan.expressions.binder import ExpressionBinder

TIMES: Mapping[str, tuple[re.Pattern[str], str]] = MappingProxyType(
    {
        "DATE": (re.compile(r"\d{4}-\d\d-\d\d"), "'2024-01-31'"),
        "TIME": (re.compile(r"\d.*"), "'13:45:00'"),
        "TIMESTAMP": (re.compile(r"\d{4}-\d\d-\d\d.*"), "'2024-01-31 13:45:00'"),
        "TIMESTAMP_LTZ": (re.compile(r"\d{4}-\d\d-\d\d.*"), "'2024-01-31 13:45:00'"),
    }
)
"""Type of a time → pattern of its literals, with all parts of a date, and an example. CAST of a column accepts more."""
NO_PATTERN_LETTERS = frozenset("bfijlortCIJPRTU")
"""Letters without a meaning in patterns of times, in Java's DateTimeFormatter and in its SimpleDateFormat."""
NO_SPARK_LETTERS = frozenset("YWwuecABnNp")
"""Letters that Java supports and Spark refuses (``DateTimeFormatterHelper``): weeks and their years, and some parts of
a day."""
NO_SPARK_LENGTHS = ("GGGGG", "MMMMM", "LLLLL", "EEEEE", "QQQQQ", "qqqqq", "yyyyyyyyyyy")
"""Runs of one letter that Spark refuses (``DateTimeFormatterHelper``)."""
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?[+-]\d{1,2}(?::?\d\d)?|Z|[A-Z]{3}")
"""A zone without a region: an offset, or one of Java's short names."""


def check_time(binder: ExpressionBinder, node: exp.Expression, text: str, type_: Scalar) -> None:
    """Raises: UserError LITERAL_INVALID for a text that is not a time of that type."""
    from ds_dagster.functions.values.casts import cast

    pattern, example = TIMES[type_.name]
    try:
        is_time = pattern.fullmatch(text) is not None and cast(text, VARCHAR, type_) is not None
    except ValueError:
        is_time = False
    if not is_time:
        raise binder.refuse("LITERAL_INVALID", node, value=text, type=type_, example=example)


def check_cast(binder: ExpressionBinder, node: exp.Expression, text: str, target: Scalar) -> None:
    """Raises: UserError LITERAL_INVALID for a text that CAST cannot convert to a time, a number or BOOLEAN."""
    if target.name in TIMES:
        check_time(binder, node, text, target)
    elif target.name == "BOOLEAN" or is_numeric(target):
        from ds_dagster.functions.values.casts import cast

        try:
            cast(text, VARCHAR, target)
        except (ValueError, ArithmeticError) as problem:
            example = "'TRUE'" if target.name == "BOOLEAN" else "'12'"
            raise binder.refuse("LITERAL_INVALID", node, value=text, type=target, example=example) from problem


def checked(binder: ExpressionBinder, node: exp.Expression, function: Function, values: Sequence[Typed]) -> list[Typed]:
    """Arguments of a function, its constants checked; JSON paths in Spark's form.

    Raises:
        UserError: PATTERN_INVALID, REGEX_GROUP_MISSING, JSON_PATH_INVALID, CHARSET_UNKNOWN, TIME_ZONE_UNKNOWN,
            FUNCTION_ARGUMENT_TYPE.
    """
    checked_values = list(values)
    for constant in function.constants:
        text = _literal_text(values, constant.at)
        if text is not None and constant.kind in CHECKS:
            checked_values = CHECKS[constant.kind](binder, node, constant, text, checked_values)
        if constant.kind == "precision":
            _check_precision(binder, node, function, values, constant.at)
    return checked_values


def check_unit(
    binder: ExpressionBinder, node: exp.Expression, function: Function, arguments: Sequence[exp.Expression]
) -> None:
    """Raises: UserError FUNCTION_ARGUMENT_TYPE for a unit of time that the function does not support."""
    for constant in function.constants:
        if constant.kind != "unit" or constant.at >= len(arguments):
            continue
        unit = arguments[constant.at]
        is_text = isinstance(unit, exp.Literal) and bool(unit.args.get("is_string"))
        if not is_text or unit.name.upper() not in constant.units:
            name, types = (
                written_name(node, function.name),
                [unit.name.upper() if is_text else expression_text(unit, str)],
            )
            expected = f" with one of {', '.join(constant.units)} as the unit"
            raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=name, types=types, expected=expected)


def _check_precision(
    binder: ExpressionBinder, node: exp.Expression, function: Function, values: Sequence[Typed], position: int
) -> None:
    """Raises: UserError FUNCTION_ARGUMENT_TYPE for a literal number that is not one of :data:`PRECISIONS`."""
    tree = values[position].tree if position < len(values) else exp.Null()
    number = tree.this if isinstance(tree, exp.Neg) else tree
    if not isinstance(number, exp.Literal) or number.is_string:
        return
    if number is not tree or int(str(number.this)) not in PRECISIONS:
        types, expected = [value.type for value in values], " with 0 (seconds) or 3 (milliseconds) as the precision"
        raise binder.refuse("FUNCTION_ARGUMENT_TYPE", node, function=function.name, types=types, expected=expected)


def _check_zone(
    binder: ExpressionBinder, node: exp.Expression, _zone: Constant, name: str, values: list[Typed]
) -> list[Typed]:
    from zoneinfo import available_timezones

    zones = available_timezones()
    if not zones or name in zones or _OFFSET.fullmatch(name):
        return values
    close = nearest(name, zones) or ("Europe/Berlin", "UTC", "+02:00")
    raise binder.refuse("TIME_ZONE_UNKNOWN", node, name=name, nearest=", ".join(close))


def _check_charset(
    binder: ExpressionBinder, node: exp.Expression, _charset: Constant, name: str, values: list[Typed]
) -> list[Typed]:
    if name.upper() not in CHARSETS:
        raise binder.refuse("CHARSET_UNKNOWN", node, name=name, known=list(CHARSETS))
    return values


def _check_format(
    binder: ExpressionBinder, node: exp.Expression, form: Constant, text: str, values: list[Typed]
) -> list[Typed]:
    from ds_dagster.functions.java_format import judge

    types = [None if _is_null(value.tree) else value.type for value in values[form.at + 1 :]]
    reason = judge(text, types)
    if reason:
        raise binder.refuse("PATTERN_INVALID", node, reason=f"'{text}': {reason}")
    return values


def _is_null(tree: exp.Expression) -> bool:
    return isinstance(tree.this if isinstance(tree, exp.Cast) else tree, exp.Null)


def _literal_text(values: Sequence[Typed], position: int) -> str | None:
    tree = values[position].tree if position < len(values) else None
    return str(tree.this) if isinstance(tree, exp.Literal) and tree.is_string else None


def _number(values: Sequence[Typed], position: int) -> int | None:
    tree = values[position].tree if position < len(values) else None
    is_whole = isinstance(tree, exp.Literal) and not tree.is_string and str(tree.this).isdecimal()
    return int(str(tree.this)) if tree is not None and is_whole else None


def _check_regex(
    binder: ExpressionBinder, node: exp.Expression, regex: Constant, text: str, values: list[Typed]
) -> list[Typed]:
    from ds_dagster.functions.java_regex import judge

    reason, groups = judge(text)
    if reason:
        raise binder.refuse("PATTERN_INVALID", node, reason=f"'{text}': {reason}")
    if groups is None:
        return values
    wanted = _number(values, regex.at + 1) if len(values) > regex.at + 1 else regex.group
    if regex.group is not None and wanted is not None and wanted > groups:
        raise binder.refuse("REGEX_GROUP_MISSING", node, group=wanted, pattern=text, groups=groups)
    if regex.replacement is not None:
        _check_replacement(binder, node, _literal_text(values, regex.replacement), groups)
    return values


def _check_replacement(binder: ExpressionBinder, node: exp.Expression, text: str | None, groups: int) -> None:
    """A backslash, and a ``$`` without a number or name after it, are plain characters."""
    for digit in re.findall(r"\$(\d)", text or ""):
        if int(digit) > groups:
            raise binder.refuse("REGEX_GROUP_MISSING", node, group=int(digit), pattern=text, groups=groups)


def _check_time_pattern(
    binder: ExpressionBinder, node: exp.Expression, pattern: Constant, text: str, values: list[Typed]
) -> list[Typed]:
    bare = re.sub(r"'[^']*'", "", text)
    wrong = sorted(set(bare) & NO_PATTERN_LETTERS)
    if wrong:
        reason = f"'{text}': {', '.join(wrong)} are not letters of a pattern; quote letters of a text: ''T''"
        raise binder.refuse("PATTERN_INVALID", node, reason=reason)
    if "'" in bare:
        raise binder.refuse("PATTERN_INVALID", node, reason=f"'{text}': a quote is not closed")
    if pattern.by_spark:
        unread = [*sorted(set(bare) & NO_SPARK_LETTERS), *(run for run in NO_SPARK_LENGTHS if run in bare)]
        if unread:
            reason = f"'{text}': Spark does not support {', '.join(unread)}"
            raise binder.refuse("PATTERN_INVALID", node, reason=reason)
        marks = sorted(set(bare) & OWN_MARKS)
        if marks:
            reason = f"'{text}': Java reserves {' '.join(marks)}; quote marks of a text: ''[''"
            raise binder.refuse("PATTERN_INVALID", node, reason=reason)
    return values


def _with_path(
    binder: ExpressionBinder, node: exp.Expression, constant: Constant, text: str, values: list[Typed]
) -> list[Typed]:
    from ds_dagster.functions.json_path import PathError, canonical

    try:
        path = canonical(text)
    except PathError as problem:
        raise binder.refuse("JSON_PATH_INVALID", node, path=text, fix=str(problem)) from problem
    if "[*]" in path and (not constant.all_elements or path.count("[*]") > 1):
        fix = f"one [*], in JSON_QUERY: JSON_QUERY(value, '{path[: path.index('[*]') + 3]}')"
        raise binder.refuse("JSON_PATH_INVALID", node, path=text, fix=fix)
    read = values[constant.at]._replace(tree=exp.Literal.string(path))
    return [*values[: constant.at], read, *values[constant.at + 1 :]]


CHECKS: Mapping[ConstantKind, Callable[..., list[Typed]]] = MappingProxyType(
    {
        "regex": _check_regex,
        "time_pattern": _check_time_pattern,
        "json_path": _with_path,
        "zone": _check_zone,
        "charset": _check_charset,
        "format": _check_format,
    }
)
"""Kind of constant → its check of a text, which gives the arguments to bind. A unit of time is checked by
:func:`check_unit`, a precision is a number."""


def check_escape(binder: ExpressionBinder, node: exp.Expression, pattern: exp.Expression, escape: str) -> None:
    """Raises: UserError LIKE_ESCAPE if it is not one character, or comes before a character that needs no escape."""
    if len(escape) != 1:
        reason = f"ESCAPE '{escape}' is not one character"
        raise binder.refuse("LIKE_ESCAPE", node, reason=reason, fix="write one character: ESCAPE '!'")
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return
    others = re.sub(re.escape(escape) + r"[%_" + re.escape(escape) + "]", "", str(pattern.this))
    if escape in others:
        reason = f"a {escape} is not before %, _ or {escape}"
        raise binder.refuse("LIKE_ESCAPE", node, reason=reason, fix=f"double it to mean itself: {escape}{escape}")


def check_divisor(binder: ExpressionBinder, node: exp.Expression, divisor: exp.Expression, result: Scalar) -> None:
    """Raises: UserError DIVISION_BY_ZERO for a constant 0; floats give infinity."""
    is_number = isinstance(divisor, exp.Literal) and not divisor.is_string
    if is_number and result.name not in FLOATS and not str(divisor.this).strip("0."):
        raise binder.refuse("DIVISION_BY_ZERO", node)


def check_index(binder: ExpressionBinder, node: exp.Expression, type_: DataType | None, index: exp.Expression) -> None:
    """Raises: UserError INDEX_BELOW_ONE for a constant index of an ARRAY below 1."""
    number = index.this if isinstance(index, exp.Neg) else index
    is_number = isinstance(number, exp.Literal) and not number.is_string
    if isinstance(type_, ArrayType) and is_number and (number is not index or not str(number.this).strip("0")):
        raise binder.refuse("INDEX_BELOW_ONE", node, index=index.sql())


def check_null(binder: ExpressionBinder, node: exp.Expression, left: Typed, right: Typed) -> None:
    """Raises: UserError COMPARED_WITH_NULL for a comparison that is never true."""
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        return
    for value, other in ((left, node.expression), (right, node.this)):
        if isinstance(value.tree, exp.Null):
            negated = "NOT " if isinstance(node, exp.NEQ) else ""
            raise binder.refuse("COMPARED_WITH_NULL", node, value=binder.shown(other), negated=negated)
