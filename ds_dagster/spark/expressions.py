"""Bound expressions → Spark columns: one visit method per node class of ``plan.expressions.BOUND_NODES``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types
from sqlglot import exp

from ds_dagster.errors import error
from ds_dagster.functions.operators import OPERATORS
from ds_dagster.functions.spark import in_years, limited
from ds_dagster.plan.expressions.bound_trees import cast_source, cast_type, changes
from ds_dagster.plan.nodes.node import BoundExpression
from ds_dagster.spark.functions import java_values
from ds_dagster.spark.functions.calls import called
from ds_dagster.spark.functions.casts import converted
from ds_dagster.spark.functions.sums import Operand, added
from ds_dagster.spark.functions.user import user_call
from ds_dagster.spark.records.columns import field
from ds_dagster.spark.records.typemap import spark_sql


def compile_expression(frame: DataFrame, expression: BoundExpression) -> Column:
    """A column over the frame's fields, of exactly the expression's type."""
    return ExpressionCompiler(frame).compile(expression.tree).cast(spark_sql(expression.type))


def compile_condition(frame: DataFrame, condition: BoundExpression) -> Column:
    """A BOOLEAN column; a row passes only if it is TRUE (not NULL)."""
    return ExpressionCompiler(frame).compile(condition.tree)


class ExpressionCompiler:
    """Compiles trees over one frame.

    Args:
        frame: its columns are the fields; used to find the type of an operand where Spark's result depends on it.
    """

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    def compile(self, tree: exp.Expression) -> Column:
        """The column of a tree.

        Raises:
            InternalError: INTERNAL for a node class that is not in :data:`VISITORS`.
        """
        visit = VISITORS.get(type(tree).__name__)
        if visit is None:
            raise error("INTERNAL", where=f"no Spark meaning for the node {type(tree).__name__}")
        return visit(self, tree)

    def type_of(self, column: Column) -> spark_types.DataType:
        """Spark's type of a column over the frame."""
        return self.frame.select(column.alias("x")).schema[0].dataType

    # leaves

    def visit_column(self, node: exp.Expression) -> Column:
        """A field of the input."""
        return field(node.name)

    def visit_literal(self, node: exp.Expression) -> Column:
        """Text, whole number, exact decimal or double."""
        text = str(node.this)
        if node.args.get("is_string"):
            return sf.lit(text)
        if "e" in text.lower():
            return sf.lit(float(text))
        is_whole = "." not in text and int(text) < 2**63
        return sf.lit(int(text)) if is_whole else sf.lit(Decimal(text))

    def visit_boolean(self, node: exp.Expression) -> Column:
        """TRUE or FALSE."""
        return sf.lit(bool(node.this))

    def visit_null(self, _node: exp.Expression) -> Column:
        """NULL."""
        return sf.lit(None)

    def visit_paren(self, node: exp.Expression) -> Column:
        """The expression in parentheses."""
        return self.compile(node.this)

    # arithmetic

    def visit_negation(self, node: exp.Expression) -> Column:
        """The number with the other sign."""
        number = self.compile(node.this)
        return java_values.negated(number, self.type_of(number))

    def visit_sum(self, node: exp.Expression) -> Column:
        """Numbers, or a time moved by an interval; a DATE stays a DATE."""
        amount = _amount(node)
        if amount is None:
            return self._sum(node)
        moved = self.compile(node.expression if amount is node.this else node.this)
        shifted = moved - _interval(amount) if isinstance(node, exp.Sub) else moved + _interval(amount)
        return in_years(sf, shifted.cast(self.type_of(moved)))

    def _sum(self, node: exp.Expression) -> Column:
        """A chain of additions and subtractions, without recursion on its left side."""
        terms = []
        while isinstance(node, exp.Add | exp.Sub) and _amount(node) is None:
            terms.append((node.expression, isinstance(node, exp.Sub)))
            node = node.this
        operands = [Operand(self.compile(tree), minus) for tree, minus in reversed(terms)]
        return added(self.compile(node), operands, self.type_of)

    def visit_division(self, node: exp.Expression) -> Column:
        """Floats divide by zero to infinity or NaN and stay floats; everything else fails on zero."""
        left, right = self._sides(node)
        type_ = self.type_of(left)
        if not isinstance(type_, spark_types.FractionalType) or isinstance(type_, spark_types.DecimalType):
            return left / right
        by_zero = left * sf.pow(right, sf.lit(-1))
        return sf.when(right == 0, by_zero).otherwise(left / right).cast(type_)

    def visit_whole_division(self, node: exp.Expression) -> Column:
        """Whole numbers, cut towards zero."""
        return sf.call_function("div", *self._sides(node))

    # conditions

    def visit_not(self, node: exp.Expression) -> Column:
        """NOT; NULL for NULL."""
        return ~self.compile(node.this)

    def visit_is(self, node: exp.Expression) -> Column:
        """IS NULL, IS TRUE, IS FALSE."""
        value = self.compile(node.this)
        if isinstance(node.expression, exp.Null):
            return value.isNull()
        return value.eqNullSafe(self.compile(node.expression))

    def visit_in(self, node: exp.Expression) -> Column:
        """Any of a list."""
        return self.compile(node.this).isin(*[self.compile(item) for item in node.expressions])

    def visit_between(self, node: exp.Expression) -> Column:
        """Both bounds included."""
        value, low, high = (self.compile(tree) for tree in (node.this, node.args["low"], node.args["high"]))
        if changes(node.this):
            return sf.call_function("between", value, low, high)
        return (value >= low) & (value <= high)

    def visit_like(self, node: exp.Expression) -> Column:
        """Without ESCAPE a backslash is a character like any other."""
        pattern = node.expression
        if isinstance(pattern, exp.Literal):
            return sf.like(self.compile(node.this), sf.lit(str(pattern.this).replace("\\", "\\\\")))
        doubled = sf.replace(self.compile(pattern), sf.lit("\\"), sf.lit("\\\\"))
        return sf.like(self.compile(node.this), doubled)

    def visit_escape(self, node: exp.Expression) -> Column:
        """LIKE with an escape character."""
        like = node.this
        return sf.like(self.compile(like.this), self.compile(like.expression), sf.lit(str(node.expression.this)))

    def visit_case(self, node: exp.Expression) -> Column:
        """The first branch that holds; NULL without one."""
        branches = [(self.compile(branch.this), self.compile(branch.args["true"])) for branch in node.args["ifs"]]
        cases = sf.when(*branches[0])
        for condition, value in branches[1:]:
            cases = cases.when(condition, value)
        default = node.args.get("default")
        return cases if default is None else cases.otherwise(self.compile(default))

    # values

    def visit_cast(self, node: exp.Expression) -> Column:
        """CAST and TRY_CAST."""
        safe = isinstance(node, exp.TryCast)
        return converted(self.compile(node.this), cast_source(node), cast_type(node), safe=safe)

    def visit_bracket(self, node: exp.Expression) -> Column:
        """An element of an ARRAY (from 1, NULL outside) or a value of a MAP."""
        value, index = self.compile(node.this), self.compile(node.expressions[0])
        if isinstance(self.type_of(value), spark_types.MapType):
            return sf.try_element_at(value, index)
        place = limited(sf, index) if isinstance(self.type_of(index), spark_types.LongType) else index
        return sf.get(value, sf.when(place > 0, place - 1))

    def visit_field(self, node: exp.Expression) -> Column:
        """A field of a STRUCT."""
        return self.compile(node.this).getField(node.expression.name)

    def visit_array(self, node: exp.Expression) -> Column:
        """An ARRAY of values."""
        return sf.array(*[self.compile(item) for item in node.expressions])

    def visit_struct(self, node: exp.Expression) -> Column:
        """A STRUCT of values with names."""
        return sf.struct(*[self.compile(field.this).alias(field.alias) for field in node.expressions])

    def visit_call(self, node: exp.Expression) -> Column:
        """A function of the dialect."""
        return called(str(node.this), _Call(self, node))

    def visit_user_call(self, node: exp.Expression) -> Column:
        """A function of the user."""
        arguments = [self.compile(tree) for tree in node.expressions]
        return user_call(self.frame.sparkSession, node.args["function"], arguments)

    def _sides(self, node: exp.Expression) -> tuple[Column, Column]:
        return self.compile(node.this), self.compile(node.expression)


class _Call:
    """One call, see :class:`ds_dagster.functions.spark.SparkCall`."""

    java = java_values

    def __init__(self, compiler: ExpressionCompiler, node: exp.Expression) -> None:
        self._compiler = compiler
        self._trees = node.expressions
        self.columns = [compiler.compile(tree) for tree in node.expressions]

    def literal(self, position: int) -> str | None:
        tree = self._trees[position]
        return str(tree.this) if isinstance(tree, exp.Literal) and tree.args.get("is_string") else None

    def function(self, position: int) -> str:
        tree = self._trees[position]
        return str(tree.this) if isinstance(tree, exp.Anonymous) else ""

    def type_of(self, position: int) -> spark_types.DataType:
        return self._compiler.type_of(self.columns[position])


def _amount(node: exp.Expression) -> exp.Interval | None:
    """The interval operand of a sum; None if both operands are numbers."""
    return next((side for side in (node.this, node.expression) if isinstance(side, exp.Interval)), None)


def _interval(node: exp.Interval) -> Column:
    amount = Decimal(str(node.this.this))
    unit = node.args["unit"].name.upper().removesuffix("S")
    if unit in ("YEAR", "MONTH"):
        months = int(amount) * (12 if unit == "YEAR" else 1)
        return sf.make_ym_interval(sf.lit(0), sf.lit(months))
    return sf.make_dt_interval(secs=sf.lit(amount * SECONDS[unit]))


SECONDS: Mapping[str, Decimal] = MappingProxyType(
    {
        "MILLISECOND": Decimal("0.001"),
        "SECOND": Decimal(1),
        "MINUTE": Decimal(60),
        "HOUR": Decimal(3600),
        "DAY": Decimal(86_400),
        "WEEK": Decimal(604_800),
    }
)
"""Unit of an interval → seconds."""


Visitor = Callable[[ExpressionCompiler, exp.Expression], Column]


def _on_columns(compute: Callable[[Column, Column], Column]) -> Visitor:
    return lambda compiler, node: compute(*compiler._sides(node))


VISITORS: Mapping[str, Visitor] = MappingProxyType(
    {
        **{operator.node.__name__: _on_columns(operator.spark) for operator in OPERATORS if operator.spark is not None},
        "Column": ExpressionCompiler.visit_column,
        "Literal": ExpressionCompiler.visit_literal,
        "Boolean": ExpressionCompiler.visit_boolean,
        "Null": ExpressionCompiler.visit_null,
        "Paren": ExpressionCompiler.visit_paren,
        "Neg": ExpressionCompiler.visit_negation,
        "Add": ExpressionCompiler.visit_sum,
        "Sub": ExpressionCompiler.visit_sum,
        "Div": ExpressionCompiler.visit_division,
        "IntDiv": ExpressionCompiler.visit_whole_division,
        "Not": ExpressionCompiler.visit_not,
        "Is": ExpressionCompiler.visit_is,
        "In": ExpressionCompiler.visit_in,
        "Between": ExpressionCompiler.visit_between,
        "Like": ExpressionCompiler.visit_like,
        "Escape": ExpressionCompiler.visit_escape,
        "Case": ExpressionCompiler.visit_case,
        "Cast": ExpressionCompiler.visit_cast,
        "TryCast": ExpressionCompiler.visit_cast,
        "Bracket": ExpressionCompiler.visit_bracket,
        "FieldAccess": ExpressionCompiler.visit_field,
        "Array": ExpressionCompiler.visit_array,
        "Struct": ExpressionCompiler.visit_struct,
        "Anonymous": ExpressionCompiler.visit_call,
        "UserCall": ExpressionCompiler.visit_user_call,
    }
)
"""Name of a node class → its visit method. Nodes that are read as part of their parent (If, Interval, Identifier,
types) have no entry."""
