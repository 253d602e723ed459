"""What an editor shows over a word."""

from __future__ import annotations

import pytest

from ds_dagster.editor.hovers import hover_at
from tests.editor.conftest import At

QUERY = "CREATE STREAM x AS SELECT userid, url FROM clicks WHERE url LIKE '/h%';"


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        (QUERY.replace("clicks", "cli|cks"), "STREAM default.public.clicks (\n  ts BIGINT,\n  userid VARCHAR NOT NULL"),
        (QUERY.replace("clicks", "cli|cks"), "Clicks on the site."),
        (QUERY.replace("clicks", "cli|cks"), "read by `home`, `x`"),
        (QUERY.replace("userid", "us|erid"), "userid VARCHAR NOT NULL  -- clicks"),
        (QUERY.replace("STREAM x", "STREAM |x"), "exactly once"),
        ("CREATE STREAM x AS SELECT UP|PER(url) AS u FROM clicks;", "UPPER(text) → VARCHAR"),
        ("CREATE STREAM x AS SELECT CHAR_LEN|GTH(url) AS u FROM clicks;", "names: "),
        ("CREATE STREAM x WITH ('top|ic' = 't') AS SELECT url FROM clicks;", "**topic** (text)"),
        ("CREATE STREAM x WITH ('store' = '|k') AS SELECT url FROM clicks;", "STORE k (KAFKA)"),
        ("CREATE STREAM x WITH ('kafka.topic.reten|tion.ms' = 1) AS SELECT url FROM clicks;", "kafka.topic.*"),
        (
            "CREATE STREAM y (a|mount DECIMAL(9,2)) WITH ('topic' = 'y', 'value.format' = 'json');",
            "amount DECIMAL(9,2)",
        ),
        ("CREATE STREAM x AS SELECT url FROM default.public.cli|cks;", "STREAM default.public.clicks"),
    ],
)
def test_a_word_is_explained(at: At, marked: str, shown: str) -> None:
    assert shown in hover_at(*at(marked))


@pytest.mark.parametrize(
    "marked",
    ["SEL|ECT 1;", "-- cli|cks", "CREATE STREAM x AS SELECT url FROM nowh|ere;", "|", " | "],
)
def test_nothing_is_made_up(at: At, marked: str) -> None:
    assert hover_at(*at(marked)) == ""


def test_a_file_with_mistakes_keeps_the_texts_of_the_others(at: At) -> None:
    assert "clicks" in hover_at(*at("CREATE STREAM x AS SELCT a; CREATE STREAM y AS SELECT url FROM cli|cks;"))


def test_a_secret_is_not_shown(at: At) -> None:
    text = "CREATE STORE own|er WITH ('type' = KAFKA, 'uris' = 'b:1', 'kafka.sasl.password' = 'hunter2',"
    text += " 'kafka.sasl.username' = 'u', 'kafka.sasl.hash_function' = PLAIN);"
    shown = hover_at(*at(text))
    assert "STORE owner" in shown
    assert "hunter2" not in shown
