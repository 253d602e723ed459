"""What good code looks like here, as far as a syntax tree can tell: sizes, records, errors, SQL, names."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from ds_dagster.conditions import CONDITIONS
from ds_dagster.stores.registry import KINDS
from tests.architecture.trees import Module, code_of, docstring_of, lines_of, modules, name_of, nodes_of, texts

# --- sizes ------------------------------------------------------------------------------------------------------------

FILE_LINES, FUNCTION_LINES = 400, 60

LONG_FILES: Mapping[str, int] = {
    "catalog/declaring/inference.py": 442,
    "catalog/properties/table.py": 600,
    "conditions/sql/query.py": 440,
    "jars.py": 446,
    "plan/expressions/binder.py": 475,
    "runtime/control.py": 492,
    "spark/jvm.py": 560,
}
"""Files that are longer → how long they may be. May only shrink."""
LONG_FUNCTIONS: Mapping[str, str] = {}
"""``path:function`` → why it is longer. May only shrink."""


def test_files_have_one_noun() -> None:
    lines = {found.path: len(found.text.splitlines()) for found in modules()}
    assert not {path: count for path, count in lines.items() if count > LONG_FILES.get(path, FILE_LINES)}
    assert not {path for path in LONG_FILES if lines.get(path, 0) <= FILE_LINES}, "remove them from LONG_FILES"


def test_functions_do_one_step() -> None:
    long = {
        f"{found.path}:{function.name}": lines_of(function)
        for found in modules()
        for function in found.functions()
        if lines_of(function) > FUNCTION_LINES
    }
    assert set(long) == set(LONG_FUNCTIONS), long


def test_docstrings_do_not_count() -> None:
    function = next(code_of('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n').functions())
    assert lines_of(function) == 2


# --- data -------------------------------------------------------------------------------------------------------------

STATEFUL: Mapping[str, str] = {
    "demo": "a demonstration that runs and what is seen of it",
    "cli": "tables in memory and views over the project, alive for one command",
    "editor/server.py": "open buffers and what the editor shows",
    "local": "servers being started",
    "orchestration/component.py": "Dagster resolves a component's attributes into it",
    "orchestration/launch.py": "what was asked and answered in one run",
    "orchestration/health/report.py": "one tick of the sensor",
    "plan/binding/assemble.py": "the parts of one SELECT while it is being bound",
    "plan/binding/scope.py": "the names visible while one SELECT is being bound",
    "plan/binding/sources.py": "the names of sources given so far in one query",
    "runtime/control.py": "a door to the journal",
    "runtime/engine.py": "the engine's loop",
    "runtime/journals/journal.py": "a connection to the journal",
    "runtime/launchers/local.py": "a process being started",
    "runtime/journals/lease.py": "a lease being held",
    "runtime/processes/liveness.py": "beats seen so far",
    "runtime/processes/locks.py": "a lock being held",
    "runtime/reconcile.py": "the engine's loop",
    "runtime/deciding/round.py": "one round of the engine's loop",
    "engine/step.py": "one load in a Dagster step's session",
    "engine/worker.py": "queries being hosted",
    "engine/query.py": "one query being hosted",
    "spark": "readers and writers with buffers and positions",
    "sql/comments.py": "tags found so far in one comment",
    "sql/script.py": "one file being read",
    "stores/memory/loader.py": "a table in memory",
    "testing": "topics and queries of a running case",
}
"""Files or folders that may hold dataclasses which are not frozen → what those hold. What travels between modules
(statements, catalog, plan nodes, specs, journal records) is never among them."""
RECORDS = (
    "sql/statements.py",
    "catalog/",
    "plan/nodes/",
    "plan/query.py",
    "runtime/journals/records.py",
    "runtime/deciding/spec.py",
)


def dataclass_words(node: ast.ClassDef) -> frozenset[str] | None:
    """Keywords that are True in a class's dataclass decorator; None when it is no dataclass."""
    for decorator in node.decorator_list:
        if name_of(decorator).rpartition(".")[2] != "dataclass":
            continue
        words = decorator.keywords if isinstance(decorator, ast.Call) else []
        return frozenset(w.arg or "" for w in words if isinstance(w.value, ast.Constant) and w.value.value is True)
    return None


def stateful(found: Module) -> bool:
    return not found.path.startswith(RECORDS) and any(
        found.path == place or found.path.startswith(f"{place}/") for place in STATEFUL
    )


def test_what_crosses_modules_is_frozen_and_slotted() -> None:
    wrong = []
    for found in modules():
        for node in found.classes():
            words = dataclass_words(node)
            if words is None or {"frozen", "slots"} <= words:
                continue
            if not stateful(found) or ("slots" not in words and found.area != "orchestration"):
                wrong.append(f"{found.path}:{node.lineno} {node.name}")
    assert not wrong, wrong


def test_no_exception_to_frozen_records_is_left_over() -> None:
    used = {
        place
        for found in modules()
        for node in found.classes()
        if (words := dataclass_words(node)) is not None and "frozen" not in words
        for place in STATEFUL
        if found.path == place or found.path.startswith(f"{place}/")
    }
    assert {place for place in STATEFUL if "/" in place} <= used


# --- errors -----------------------------------------------------------------------------------------------------------

BUILT_IN = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type)
    and issubclass(value, BaseException)
    and name not in ("StopIteration", "KeyboardInterrupt")
}

RAISES_BUILT_IN: Mapping[str, str] = {
    "__init__.py:__getattr__": "Python asks a module for a name it has not by AttributeError",
    "sql/grammar/over.py:expr": "the grammar of expressions subclasses that of OVER",
    "sql/grammar/over.py:identifier": "the same",
    "sql/grammar/call.py:query": "the grammar of queries subclasses that of expressions",
    **dict.fromkeys(
        ("sql/grammar/similar.py:_parts", "sql/grammar/similar.py:_end_of_class"),
        "the grammar turns it into the refusal of the pattern",
    ),
    "sql/grammar/match.py:duration": "the grammar of queries subclasses that of patterns",
    "sql/grammar/join.py:source_reference": "the grammar of queries subclasses that of joins",
    "sql/grammar/join.py:duration": "the same",
    "sql/grammar/join.py:at_alias": "the same",
    "sql/grammar/sets.py:_select_clauses": "the grammar of one SELECT subclasses that of several",
    **dict.fromkeys(
        ("places/bucket.py:copy", "places/bucket_path.py", "places/trees.py:copy_tree"),
        "a missing object is reported as pathlib reports a missing file",
    ),
    "questions/records.py": "a record's reader says so to its own decode(), which turns it into a skipped record",
    **dict.fromkeys(
        (
            "questions/lowering.py",
            "functions/java_format.py",
            "functions/python_regex.py",
            *(
                f"functions/families/{name}.py"
                for name in ("arrays", "codes", "json_texts", "maps", "numeric", "regexes", "texts")
            ),
            *(f"functions/values/{name}.py" for name in ("casts", "formats", "json_texts", "times")),
        ),
        "DuckDB turns what a function raises into its own error, which the engine turns into QUESTION_FAILED",
    ),
}
"""Places that raise a built-in exception, none of which leaves the package."""


def raised_built_in(found: Module) -> Iterator[str]:
    for function in found.functions():
        for node in nodes_of(function):
            if isinstance(node, ast.Raise) and node.exc is not None and name_of(node.exc) in BUILT_IN:
                yield f"{found.path}:{function.name}"


def test_every_raise_names_a_condition() -> None:
    places = {place for found in modules() for place in raised_built_in(found)}
    assert not {place for place in places if not {place, place.split(":")[0]} & set(RAISES_BUILT_IN)}


def test_a_built_in_raise_would_be_found() -> None:
    assert list(raised_built_in(code_of("def f():\n    raise ValueError('x')"))) == ["made/up.py:f"]
    assert not list(raised_built_in(code_of("def f():\n    raise error('X')")))


PARAMETER = re.compile(r"(?<!\{)\{(\w+)(?:![rs])?\}(?!\})")

BROAD: Mapping[str, str] = {
    "cli/main.py:run": "the command line: a bug becomes exit code 3 and a text that asks to report it",
    "editor/server.py:_compile": "one compilation: a bug is shown in the editor, which goes on with the state before",
    "questions/following.py:_fill": "the thread that reads records: raised again where they are asked for",
    "cli/online.py:_answer": "one probe of ds doctor --online: its finding, the others go on",
    "plan/binding/assemble.py:_fenced": "one statement: a bug is its diagnostic, the others are bound",
    "runtime/engine.py": "the engine's loop: logged and raised again",
    "engine/worker.py": "one job's boundary inside the engine: its failure, never another job's",
    "engine/rounds.py:guarded": "one step beside a query: told, the query runs on",
    "engine/step.py:run": "one load's boundary inside a Dagster step: its failure, recorded",
    "python_code.py:_called": "code of the user: whatever it raises is its failure, told without its text",
    "python_code.py:loaded": "the same, while its module is run",
}
"""Where everything may be caught, and why."""


def broad_excepts(found: Module) -> Iterator[str]:
    for function in found.functions():
        for node in nodes_of(function):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type] if node.type else []
            if not caught or {"Exception", "BaseException"} & {name_of(item) for item in caught}:
                yield f"{found.path}:{function.name}"


def test_everything_is_caught_at_the_boundaries_alone() -> None:
    places = {place for found in modules() for place in broad_excepts(found)}
    assert not {place for place in places if not {place, place.split(":")[0]} & set(BROAD)}
    unused = {place for place in BROAD if not any(place in (used, used.split(":")[0]) for used in places)}
    assert not unused, f"no longer needed: {unused}"


def test_conditions_are_known_where_they_are_raised() -> None:
    """``error("NAME", …)`` and ``….refuse("NAME", …)`` name an entry of the table, and give what its texts mention."""
    wrong = []
    for found in modules():
        for node in found.nodes():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "error":
                continue
            first = node.args[0] if node.args else None
            if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
                continue
            condition = CONDITIONS.get(first.value)
            if condition is None:
                wrong.append(f"{found.path}:{node.lineno}: {first.value} is no condition")
                continue
            given = {keyword.arg for keyword in node.keywords}
            if None in given:
                continue
            needed = set(PARAMETER.findall(condition.message + condition.hint))
            if needed - given:
                wrong.append(f"{found.path}:{node.lineno}: {first.value} lacks {sorted(needed - given)}")
    assert not wrong, "\n".join(wrong)


# --- SQL --------------------------------------------------------------------------------------------------------------

STATEMENT = re.compile(
    r"\s*(SELECT\s|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|(CREATE|DROP|ALTER)\s+(TABLE|SCHEMA|INDEX|DATABASE)"
    r"|MERGE\s|COPY\s|TRUNCATE\s|WITH\s+\w+\s+AS|PRAGMA\s|LOCK\s|NOTIFY\s)"
)


def built_sql(found: Module) -> Iterator[int]:
    """Lines where a statement is put together out of texts: f-strings, ``+``, ``%`` and ``.format``."""
    for node in (inner for inner in found.nodes() if isinstance(inner, ast.expr)):
        first: ast.expr | None = None
        if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
            first = node.values[0]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            first = node.left
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            first = node.func.value
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and STATEMENT.match(first.value):
            yield node.lineno


def test_sql_is_never_put_together_from_texts() -> None:
    assert not [f"{found.path}:{line}" for found in modules() for line in built_sql(found)]


@pytest.mark.parametrize("source", ['f"SELECT * FROM {x}"', '"INSERT INTO t VALUES (" + x', '"DROP TABLE %s" % x'])
def test_built_sql_would_be_found(source: str) -> None:
    assert list(built_sql(code_of(source))) == [1]


def test_constant_sql_passes() -> None:
    assert not list(built_sql(code_of('cursor.execute("SELECT a FROM t WHERE b = %s", (b,))')))


# --- names ------------------------------------------------------------------------------------------------------------

ASKS_FOR_A_KIND: Mapping[str, str] = {
    "orchestration/resources.py": "one resource class per client library, chosen by the kind",
    "testing": "a case replaces every store by one in memory",
}
"""Files or folders that may name kinds of stores, and why."""


def kinds_named(found: Module) -> Iterator[str]:
    for node in texts(found.tree):
        if node.value in KINDS:
            yield f"{found.path}:{node.lineno} {node.value!s}"


def test_nobody_asks_for_a_stores_kind() -> None:
    """What a store can do is in its capability record; its name belongs to its own file."""
    outside = [found for found in modules() if found.area not in ("stores", "local")]
    named = [line for found in outside for line in kinds_named(found)]
    allowed = tuple(ASKS_FOR_A_KIND)
    assert not [line for line in named if not line.startswith(allowed)]


def test_no_module_is_named_like_the_standard_library() -> None:
    """A script started from its folder would import the wrong one (plan/ has no scripts; its file binds SELECT)."""
    names = {found.path.removesuffix(".py") for found in modules()}
    assert {name for name in names if name.rpartition("/")[2] in sys.stdlib_module_names} <= {"plan/binding/select"}


def test_every_module_says_what_it_is() -> None:
    assert not [found.path for found in modules() if docstring_of(found.tree) is None]


def test_annotations_are_lazy_except_where_dagster_reads_them() -> None:
    line = "from __future__ import annotations"
    for found in modules():
        if found.area in ("orchestration", "spark_resource"):
            assert line not in found.text, f"{found.path}: Dagster reads its annotations"
        elif any(not isinstance(node, ast.Expr | ast.ImportFrom) for node in found.tree.body):
            assert line in found.text, found.path


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_class_name_means_one_thing() -> None:
    """Readers search by name; a class of another module with the same name answers wrongly."""
    places: dict[str, list[str]] = {}
    for defining in modules():
        for node in defining.classes():
            places.setdefault(node.name, []).append(f"{defining.path}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_a_helper_has_one_home() -> None:
    """Two modules that define the same private function share it instead, from the nearest room below both."""
    places: dict[tuple[str, str], list[str]] = {}
    for defining in modules():
        for node in defining.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("_"):
                places.setdefault((node.name, _meaning(node)), []).append(f"{defining.path}:{node.lineno}")
    assert not {name: found for (name, _), found in places.items() if len(found) > 1}


def _meaning(function: ast.FunctionDef) -> str:
    """Arguments and body, without docstring and annotations."""
    body = function.body[1:] if docstring_of(function) else function.body
    return "\n".join([*(argument.arg for argument in function.args.args), *map(ast.unparse, body)])


MOST_FILES = 20


def test_a_folder_holds_few_files() -> None:
    """Besides ``__init__``: more than that and prefixes begin to do a folder's work."""
    counts = Counter(
        defining.path.rpartition("/")[0] for defining in modules() if not defining.path.endswith("__init__.py")
    )
    assert not {folder: count for folder, count in counts.items() if count > MOST_FILES}


ASSERTED_KINDS = ("plan/functions/", "spark/functions/", "plan/binding/derived_aggregates.py")
"""Where signatures of functions say what arguments are. Elsewhere a type is known from where a value comes from."""


def test_no_place_of_plans_asserts_a_kind() -> None:
    """A node that nobody thought of would fail there without its name, and not at all under ``python -O``."""
    asserted = {
        f"{found.path}:{node.lineno}"
        for found in modules()
        if found.area in ("plan", "spark") and not found.path.startswith(ASSERTED_KINDS)
        for node in found.nodes()
        if isinstance(node, ast.Assert) and "isinstance(" in ast.unparse(node.test)
    }
    assert not asserted, sorted(asserted)


TOTAL = ("plan/", "spark/")
"""Folders in which every type of a value that code does not know is refused by name."""


def asserted_types(module: Module) -> Iterator[int]:
    """Lines that assert the type of a value."""
    for node in module.nodes():
        if isinstance(node, ast.Assert) and "isinstance(" in ast.unparse(node.test):
            yield node.lineno


def test_plans_and_spark_assert_no_types() -> None:
    assert not [f"{m.path}:{line}" for m in modules() if m.path.startswith(TOTAL) for line in asserted_types(m)]


def test_an_asserted_type_would_be_found() -> None:
    assert list(asserted_types(code_of("x = 1\nassert isinstance(x, int)\nassert x\n"))) == [2]
