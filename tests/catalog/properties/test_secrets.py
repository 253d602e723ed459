"""CREATE SECRET, the names by which properties use secrets, UPDATE STORE: what is declared and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from ds_dagster.catalog.declaring.declared import Declared
from ds_dagster.catalog.properties.spec import property_index
from ds_dagster.catalog.properties.values import resolve
from ds_dagster.catalog.secret import without_secrets
from ds_dagster.sql.script import parse_statement
from ds_dagster.sql.statements import CreateStore
from ds_dagster.stores.registry import KINDS

Declare = Callable[..., Declared]
PG = "CREATE STORE pg WITH ('type'=POSTGRESQL, 'uris'='postgresql://h:5432/db', 'postgres.username'='u'{more});"
SECRET = "CREATE SECRET pw WITH ('type' = environment, 'variable' = 'PW');"
REGISTRY = "CREATE SCHEMA_REGISTRY sr WITH ('type' = CONFLUENT, 'uris' = 'https://sr:8081'{more});"


def conditions(found: Declared) -> list[str]:
    return [diagnostic.condition for diagnostic in found.diagnostics]


@pytest.mark.parametrize("written", ["pw", "PW", "'${secret:pw}'", "'${secret:PW}'"])
def test_a_property_names_a_secret(declared: Declare, written: str) -> None:
    found = declared(SECRET, stores=PG.format(more=f", 'postgres.password' = {written}"))
    assert conditions(found) == []
    value = found.stores["pg"].properties["postgres.password"]
    asked: list[tuple[str, str]] = []
    text = resolve(value, {}, "store pg", lambda name, used_by: (asked.append((name, used_by)), "v")[1])
    assert (text, asked) == ("v", [("pw", "store pg")])


def test_a_secret_stands_in_the_middle_of_a_text(declared: Declare) -> None:
    stores = PG.format(more="").replace("'u'", "'user-${secret:pw}-${X:-1}'")
    value = declared(SECRET, stores=stores).stores["pg"].properties["postgres.username"]
    assert resolve(value, {}, "store pg", lambda name, _: name.upper()) == "user-PW-1"


def test_a_word_behind_any_other_property_is_a_word(declared: Declare) -> None:
    found = declared(SECRET, stores="CREATE STORE kin WITH ('type'=KINESIS, 'access_region'=pw);")
    assert found.stores["kin"].properties["access_region"].value == "pw"


def test_a_registry_names_a_secret(declared: Declare) -> None:
    more = ", 'confluent.username' = 'u', 'confluent.password' = pw"
    stores = REGISTRY.format(more=more) + "CREATE STORE k WITH ('type'=KAFKA,'uris'='b:1','schema_registry.name'='sr');"
    found = declared(SECRET, stores=stores)
    assert conditions(found) == []
    registry = found.stores["k"].registry
    assert registry is not None
    assert registry.properties["confluent.password"].value == "${secret:pw}"


REFUSED = {
    "CREATE SECRET s WITH ('variable' = 'X')": "SECRET_TYPE_UNKNOWN",
    "CREATE SECRET s WITH ('type' = vault, 'variable' = 'X')": "SECRET_TYPE_UNKNOWN",
    "CREATE SECRET s WITH ('type' = environment)": "SECRET_PROPERTY_MISSING",
    "CREATE SECRET s WITH ('type' = file, 'secret_file' = 'x', 'variable' = 'X')": "SECRET_PROPERTY_OF_OTHER_TYPE",
    "CREATE SECRET s WITH ('type' = environment, 'variable' = '${secret:pw}')": "SECRET_IN_SECRET",
    "CREATE SECRET s WITH ('type' = environment, 'varable' = 'X')": "UNKNOWN_PROPERTY",
    "CREATE SECRET pw WITH ('type' = environment, 'variable' = 'X')": "DUPLICATE_SECRET",
    "CREATE STORE o WITH ('type'=POSTGRESQL, 'uris'='postgresql://h:5432/db', 'postgres.password'='${secret:pw:-x}')": (
        "SECRET_REFERENCE_INVALID"
    ),
    "CREATE STORE o WITH ('type'=POSTGRESQL, 'uris'='postgresql://h:5432/db', 'postgres.password'='${secret:a b}')": (
        "SECRET_REFERENCE_INVALID"
    ),
    "UPDATE STORE pq WITH ('postgres.password' = pw)": "UNKNOWN_STORE",
    "UPDATE SCHEMA_REGISTRY s WITH ('confluent.password' = pw)": "UNKNOWN_SCHEMA_REGISTRY",
    "UPDATE STORE pg WITH ('type' = KAFKA)": "UPDATE_NOT_ALLOWED",
    "UPDATE STORE pg WITH ('availability_zone' = 'x')": "UPDATE_NOT_ALLOWED",
    "UPDATE STORE pg WITH ('postgres.usernam' = 'x')": "UNKNOWN_PROPERTY",
    "UPDATE STORE pg WITH ('kafka.sasl.username' = 'x')": "PROPERTY_OF_OTHER_STORE",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text)
def test_refused(declared: Declare, text: str) -> None:
    found = declared(f"{SECRET}\n{text};", stores=PG.format(more=""))
    (problem,) = (one for one in found.diagnostics if one.condition == REFUSED[text])
    assert problem.span is not None
    assert (problem.span.file, problem.span.line) == ("a.sql", 2)


def test_a_wrong_update_refuses_its_store(declared: Declare) -> None:
    found = declared("UPDATE STORE pg WITH ('type' = KAFKA);", stores=PG.format(more=""))
    assert found.refused_stores == {"pg"}


def test_an_unknown_secret_is_told_with_its_place_and_the_nearest(declared: Declare) -> None:
    found = declared(SECRET, stores=PG.format(more=",\n 'postgres.password' = pv"))
    (problem,) = found.diagnostics
    assert problem.condition == "UNKNOWN_SECRET"
    assert "pw" in problem.hint
    assert problem.span is not None
    assert (problem.span.file, problem.span.line, problem.span.column) == ("z_stores.sql", 2, 24)
    assert found.refused_stores == {"pg"}


def test_what_follows_from_a_refused_secret_is_no_root_cause(declared: Declare) -> None:
    found = declared("CREATE SECRET pw WITH ('type' = x);", stores=PG.format(more=", 'postgres.password' = pw"))
    assert [(one.condition, one.caused_by) for one in found.diagnostics] == [
        ("SECRET_TYPE_UNKNOWN", ""),
        ("SECRET_REFUSED", "pw"),
    ]


def test_a_literal_is_warned_about_and_masked(declared: Declare) -> None:
    found = declared("CREATE SECRET s WITH ('type' = generic_string, 'secret_string' = 'it''s mine');")
    (warning,) = found.diagnostics
    assert (warning.condition, warning.severity) == ("LITERAL_SECRET", "warning")
    secret = found.secrets["s"]
    assert "mine" not in secret.origin.text + repr(secret)


def test_a_file_everybody_may_read_is_warned_about(declared: Declare, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x\n")
    text = "CREATE SECRET s WITH ('type' = file, 'secret_file' = 'password');"
    (tmp_path / "password").chmod(0o604)
    assert conditions(declared(text)) == ["SECRET_FILE_OPEN"]
    (tmp_path / "password").chmod(0o640)
    found = declared(text)
    assert conditions(found) == []
    assert found.secrets["s"].properties["secret_file"].value == str(tmp_path / "password")


# UPDATE


def test_an_update_wins_over_the_declaration_wherever_it_stands(declared: Declare) -> None:
    for text, stores in ((SECRET, PG), (PG, SECRET)):
        one = text.replace("{more}", ", 'postgresql.password' = '${OLD}'")
        other = stores.replace("{more}", ", 'postgresql.password' = '${OLD}'")
        found = declared(one + "UPDATE STORE PG WITH ('postgres.password' = pw);", stores=other)
        assert conditions(found) == []
        assert found.stores["pg"].properties["postgres.password"].value == "${secret:pw}"
        assert len(found.stores["pg"].updates) == 1


def test_a_registry_is_updated_too(declared: Declare) -> None:
    stores = REGISTRY.format(more="") + "CREATE STORE k WITH ('type'=KAFKA,'uris'='b:1','schema_registry.name'='sr');"
    found = declared("UPDATE SCHEMA_REGISTRY sr WITH ('uris' = 'https://other:8081');", stores=stores)
    assert conditions(found) == []
    registry = found.stores["k"].registry
    assert registry is not None
    assert registry.properties["uris"].value == "https://other:8081"


def test_two_updates_of_one_property_are_refused(declared: Declare) -> None:
    updates = "UPDATE STORE pg WITH ('postgres.username' = 'a');\nUPDATE STORE pg WITH ('postgresql.username' = 'b');"
    found = declared(updates, stores=PG.format(more=""))
    (problem,) = found.diagnostics
    assert problem.condition == "UPDATE_TWICE"
    assert "a.sql:1" in problem.message
    assert problem.span is not None
    assert problem.span.line == 2


def test_a_literal_that_an_update_replaced_is_masked_all_the_same(declared: Declare) -> None:
    text = SECRET + "UPDATE STORE pg WITH ('postgres.password' = pw);"
    found = declared(text, stores=PG.format(more=", 'postgres.password' = 'marked-old'"))
    assert conditions(found) == []
    assert "marked-old" not in found.stores["pg"].origin.text


# masks


@pytest.mark.sweep
@seed(20260101)
@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(lambda t: "$" not in t))
def test_no_literal_survives_in_the_text_of_its_statement(literal: str) -> None:
    quoted = "'" + literal.replace("'", "''") + "'"
    text = f"CREATE STORE pg WITH ('uris' = 'a',\n  'postgres.password' = {quoted}, 'type' = POSTGRESQL)"
    plain = parse_statement(text)
    assert isinstance(plain, CreateStore)
    masked = without_secrets(plain.origin, plain.properties, property_index(KINDS)).text
    if plain.properties[1].value == literal:  # typographic quotes are read as plain ones
        assert masked == text.replace(quoted, "'********'")
