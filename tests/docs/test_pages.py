"""What the pages say is so: links lead somewhere, commands and names exist, SQL and settings are accepted."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from ds_dagster.catalog.properties.spec import property_index
from ds_dagster.cli.main import COMMANDS, cli, run
from ds_dagster.conditions import CONDITIONS
from ds_dagster.demo import data, model
from ds_dagster.functions.table import FUNCTIONS, KNOWN_LATER
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.deciding.beside import why_not_beside
from ds_dagster.runtime.journals.states import LEGAL
from ds_dagster.settings import load_settings
from ds_dagster.sql.command_script import parse_commands
from ds_dagster.stores.registry import KINDS
from ds_dagster.testing.format import load_case
from scripts import generate_docs
from tests.docs.pages import ROOT, Block, blocks, command_lines, inline_code, pages

SHELL = ("sh", "bash", "console", "shell", "")

# --- what is made from code ------------------------------------------------------------------------------------------


def test_generated_pages_are_fresh() -> None:
    assert not list(generate_docs.stale()), "run `make docs`"


def test_check_fails_on_a_stale_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(generate_docs, "PAGES", {"reference/settings.md": lambda: "other\n"})
    assert generate_docs.main(["--check"]) == 1
    assert "settings.md" in capsys.readouterr().err
    assert "other" not in (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8"), (
        "--check writes nothing"
    )


def test_every_condition_has_a_line() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert not [name for name in CONDITIONS if f'<a id="{name.lower()}"></a>`{name}`' not in text]


def test_every_property_has_a_line() -> None:
    text = (ROOT / "docs" / "reference" / "properties.md").read_text(encoding="utf-8")
    index = property_index(KINDS)
    names = {spec.name for spec in (*index.by_name.values(), *index.prefixes)} | set(index.by_name)
    assert not [name for name in names if f"`{name}`" not in text]


def test_every_setting_and_variable_has_a_line() -> None:
    text = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    settings = re.findall(r"^_(?:TEXT|PATHS) = (.+)$", (ROOT / "ds_dagster" / "settings.py").read_text(), re.MULTILINE)
    names = set(re.findall(r'"(\w+)"(?!:? *"\.?\w+"[,}])', " ".join(settings))) | {"sql", "state"}
    assert {"store", "journal", "views"} <= names
    assert not [name for name in names if f"| `{name}` |" not in text]
    code = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "ds_dagster").rglob("*.py"))
    read = set(re.findall(r"\bDS_[A-Z_]*[A-Z]\b", code))
    written = set(re.findall(r"`(DS_[A-Z_]+)`", text))
    assert not read - written - EXAMPLE_VARIABLES, "an environment variable nobody describes"


EXAMPLE_VARIABLES = frozenset({"DS_JOURNAL_URL"})
"""Names that stand in examples of references only."""


def test_every_command_has_a_section() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert not [name for name in COMMANDS if f"## ds {name}\n" not in text]
    undocumented = [name for name in COMMANDS if not (found := command(name)) or not found.help]
    assert not undocumented


def test_every_page_begins_with_a_question_of_the_reader() -> None:
    """Or with a question the page answers: definitions come after (CONTRIBUTING, English)."""
    for page, text in pages().items():
        if page.startswith("docs/"):
            paragraphs = [part for part in text.split("\n\n")[1:] if part and not part.startswith(("<!--", "!["))]
            assert "?" in paragraphs[0], page


# --- links ------------------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Anchors of a page as GitHub makes them, and those written by hand."""
    made = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        made.add(words.replace(" ", "-"))
    return made


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    text = pages()[page]
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert not broken


def test_every_page_can_be_found() -> None:
    """From the README, by links alone."""
    seen, left = set(), ["README.md"]
    while left:
        page = left.pop()
        if page in seen or page not in pages():
            continue
        seen.add(page)
        for target in re.findall(r"\]\(([^)\s#]+)", pages()[page]):
            if not re.match(r"[a-z]+:", target):
                left.append(((ROOT / page).parent / target).resolve().relative_to(ROOT).as_posix())
    assert not set(pages()) - seen


LANGUAGES = frozenset({"sql", "sh", "", "yaml", "toml", "python", "json", "ini", "text", "java", "lua"})
"""Languages of fenced blocks. Which of them are run: SQL in test_sql_blocks.py, shell, YAML cases and settings below;
``text`` is for statements of other systems, no language for output."""


def test_fenced_blocks_are_of_a_known_language() -> None:
    for page, text in pages().items():
        assert set(re.findall(r"^ *```(\w+)", text, re.MULTILINE)) <= LANGUAGES, page


# --- commands ---------------------------------------------------------------------------------------------------------


def command(name: str) -> click.Command | None:
    return cli.get_command(click.Context(cli), name)


def wrong_command(line: str) -> str:
    """Why a ``ds`` command line cannot be right; empty when it can."""
    words = [word for word in shlex.split(line.split("|")[0].split(">")[0].split("&&")[-1]) if word]
    found: click.Command | None = cli
    while isinstance(found, click.Group) and len(words) > 1 and not words[1].startswith(("-", "<", "…", "[")):
        below = found.get_command(click.Context(found), words[1])
        if below is None:
            return f"{line}: no command {words[1]}"
        found, words = below, words[1:]
    if found is None:
        return f"{line}: no such command"
    known = {flag for option in found.params for flag in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    wrong = [word for word in words if word.startswith("-") and word.split("=")[0] not in known and len(word) > 1]
    return f"{line}: unknown {wrong}" if wrong and found is not cli else ""


def written_commands() -> list[str]:
    """Every ``ds …`` line in blocks and in running text."""
    lines = [line for block in blocks(*SHELL) for line in command_lines(block.text)]
    lines += [code for text in pages().values() for code in inline_code(text)]
    return [re.sub(r"^\.venv/bin/", "", line) for line in lines if re.match(r"(\.venv/bin/)?ds [a-z]", line)]


def test_commands_that_are_written_exist() -> None:
    found = written_commands()
    assert len(found) > 20
    assert not [wrong for line in found if "…" not in line and (wrong := wrong_command(line))]


@pytest.mark.parametrize("line", ["ds chekc", "ds ps --jsn", "ds engine begin"])
def test_a_wrong_command_would_be_found(line: str) -> None:
    assert wrong_command(line)


def test_make_targets_that_are_written_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    lines = [line for block in blocks(*SHELL) for line in command_lines(block.text)]
    lines += [code for text in pages().values() for code in inline_code(text)]
    named = {match[1] for line in lines if (match := re.match(r"make ([a-z][a-z-]*)", line))}
    assert {"demo", "test"} <= named <= targets


OFFLINE = ("check", "explain", "lineage", "ls", "plan", "ps")
"""Commands that ask no server, with the options the README shows."""


PROGRAMS = frozenset({
    "ds", "make", "git", "cd", "pip", "python", "python3", "dagster", "dg", "pytest", "kill", "protoc",
    "docker", "kubectl",
})  # fmt: skip
"""What a line of a shell block may begin with. ``ds`` and ``make`` lines are held against the real programs above."""


def test_shell_blocks_hold_known_commands() -> None:
    lines = [(block.place, line) for block in blocks("sh") for line in command_lines(block.text)]
    wrong = [
        (place, line)
        for place, line in lines
        if re.sub(r"^(\w+=\S* )*(\.venv/bin/)?", "", line).split()[0] not in PROGRAMS and not line.startswith("-")
    ]
    assert len(lines) > 50
    assert not wrong


def test_sql_in_commands_is_sql() -> None:
    """`ds sql -c "…"` and `ds query "…"`: the statement in quotes is read by the grammar of the shell."""
    lines = [line for block in blocks(*SHELL) for line in command_lines(block.text)]
    asked = [shlex.split(line) for line in lines if re.match(r"ds (sql|query) ", line) and "…" not in line]
    written = [word for words in asked for word in words if " " in word]
    assert len(written) > 10
    for text in written:
        assert list(parse_commands("shell", text)), text


def readme_commands() -> list[str]:
    readme = [block for block in blocks(*SHELL) if block.page == "README.md"]
    return [line for block in readme for line in command_lines(block.text)]


def offline_commands() -> list[str]:
    return [line for line in readme_commands() if re.match(r"ds (\w+)", line) and line.split()[1] in OFFLINE]


def test_the_readme_shows_commands_that_need_no_server() -> None:
    assert len(offline_commands()) >= 3
    others = {line.split()[0] for line in readme_commands()} - {"ds", "make", "git", "cd", "pip", "python", "dg"}
    assert not others, "every other command of the README is a server's or a shell's"


@pytest.mark.parametrize("line", offline_commands())
def test_commands_of_the_readme_work(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DS_PROFILE", "none")
    assert run(shlex.split(line)[1:]) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).strip(), "it says something"


# --- SQL, settings, names ---------------------------------------------------------------------------------------------


def test_the_readmes_first_example_is_the_example(tmp_path: Path) -> None:
    """The statements shown compile over the example's own stores and sources, and yield relations of the picture."""
    shown = next(block.text for block in blocks("sql") if block.page == "README.md")
    example = (ROOT / "sql" / "clickstream.sql").read_text(encoding="utf-8")
    sources = re.findall(r"^CREATE (?:STREAM clicks \(|CHANGELOG users \().*?;", example, re.MULTILINE | re.DOTALL)
    assert len(sources) == 2
    folder = tmp_path / "sql"
    folder.mkdir()
    for file in ("stores.sql", "kinesis.properties"):
        (folder / file).write_text((ROOT / "sql" / file).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "shown.sql").write_text("\n".join((*sources, shown)), encoding="utf-8")
    (tmp_path / "ds.toml").write_text('store = "prod_kafka"\n', encoding="utf-8")
    project = load_project(tmp_path)
    assert not [found.text() for found in project.errors]
    names = re.findall(r"^CREATE (?:\w+ )*?(?:STREAM|CHANGELOG|VIEW) (\w+)", shown, re.MULTILINE)
    assert {query.name for query in project.queries.values()} == set(names)
    assert all(re.search(rf"CREATE .*\b{name}\b", example) for name in names)


def expected_of_the_demo() -> dict[str, list[dict[str, Any]]]:
    """Relation → rows after the demo's first clicks, by its model."""
    return {found.relation: [dict(row) for row in found.rows] for found in model.expected(list(data.phases(5000)))}


def test_the_readmes_answer_is_the_models() -> None:
    block = next(b for b in blocks("") if b.page == "README.md" and "ds query" in b.text)
    shown = [(line.split()[0], int(line.split()[1])) for line in block.text.splitlines()[2:]]
    counted = sorted(((row["url"], row["visits"]) for row in expected_of_the_demo()["url_visits"]), key=lambda r: -r[1])
    assert shown == counted[:3]


CLICKSTREAM = "docs/tutorial/clickstream.md"


def test_the_guides_table_is_the_models() -> None:
    block = next(b for b in blocks("") if b.page == CLICKSTREAM and "EXPECTED" in b.text)
    shown = {w[1]: int(w[2].replace(",", "")) for line in block.text.splitlines() if len(w := line.split()) == 6}
    shown.pop("pageviews_enriched")  # an interval join by arrival: its rows follow from the times the servers gave
    assert shown == {name: len(rows) for name, rows in expected_of_the_demo().items()}


def example_with(tmp_path: Path, before: str, after: str) -> LoadedProject:
    """The example project after a change of the first statement that has the text ``before``."""
    shutil.copytree(ROOT / "sql", tmp_path / "sql")
    (tmp_path / "ds.toml").write_text('store = "prod_kafka"\ndatabase = "clickstream_db"\n', encoding="utf-8")
    file = tmp_path / "sql" / "clickstream.sql"
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after, 1), encoding="utf-8")
    return load_project(tmp_path)


def test_the_guides_mistake_is_the_checks(tmp_path: Path) -> None:
    shown = next(b.text for b in blocks("") if b.page == CLICKSTREAM and "devic_id" in b.text)
    project = example_with(tmp_path, "GROUP BY url, device_id;", "GROUP BY url, devic_id;")
    assert [found.text() for found in project.errors] == [shown.rstrip("\n")]


def test_the_guides_change_needs_a_new_version(tmp_path: Path) -> None:
    page = pages()[CLICKSTREAM]
    assert "`max(event_time) AS newest`" in page
    before = load_project(ROOT, strict=True).queries["url_device_click_count"]
    counted = "count(*) AS click_count"
    project = example_with(tmp_path, counted, f"max(event_time) AS newest, {counted}")
    assert not project.errors
    assert not why_not_beside(project, project.queries["url_device_click_count"], before)


CASES = [block for block in blocks("yaml") if "title:" in block.text and "steps:" in block.text]


@pytest.mark.parametrize("block", CASES, ids=lambda block: block.place)
def test_cases_are_cases(block: Block, tmp_path: Path) -> None:
    """Every key is known; the tier of cases is where such things run."""
    path = tmp_path / "tests" / "shown.case.yaml"
    for named in re.findall(r"\.\./(sql/[\w.]+)", block.text):
        (tmp_path / named).parent.mkdir(exist_ok=True)
        (tmp_path / named).write_text("CREATE DATABASE d;\n", encoding="utf-8")
    path.parent.mkdir()
    path.write_text(block.text, encoding="utf-8")
    assert load_case(path).title


@pytest.mark.parametrize("block", blocks("toml"), ids=lambda block: block.place)
def test_settings_are_settings(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DS_STATE", "DS_SQL", "DS_JOURNAL", "DS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    if "[tool.ds-dagster" in block.text:
        (tmp_path / "pyproject.toml").write_text(block.text, encoding="utf-8")
        assert load_settings(tmp_path).file == "pyproject.toml"


TYPES_AND_KEYWORDS = frozenset(
    {
        "NO_COLOR",
        "TIMESTAMP_LTZ",
        "TRY_CAST",
        "DATE_TRUNC",
        "MATCH_RECOGNIZE",
        "MATCH_NUMBER",
        "COMPUTE_POOL",
        "JSON_LINES",
        "SCHEMA_REGISTRIES",
        "FUNCTION_SOURCES",
        "DESCRIPTOR_SOURCES",
    }
)


FOREIGN_VARIABLES = frozenset({"JAVA_TOOL_OPTIONS", "DAGSTER_POSTGRES_URL", "HADOOP_CONF_DIR", "POSTGRES_PASSWORD"})
"""Environment variables of other programs."""


def test_conditions_that_are_named_exist() -> None:
    """Upper-case words with an underscore in backticks are conditions, states, types or variables."""
    named = {
        code
        for text in pages().values()
        for code in inline_code(text)
        if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", code) and not code.startswith("DS_")
    }
    functions = set(FUNCTIONS) | {alias for f in FUNCTIONS.values() for alias in f.aliases}
    others = set(KINDS) | set(LEGAL) | functions | set(KNOWN_LATER) | property_words()
    unknown = named - set(CONDITIONS) - others - TYPES_AND_KEYWORDS - FOREIGN_VARIABLES
    assert not unknown, sorted(unknown)


def property_words() -> set[str]:
    """Values of properties that are one of a list, as they are written in pages."""
    index = property_index(KINDS)
    return {choice.upper() for spec in index.by_name.values() for choice in spec.choices}


EXAMPLE_PROPERTIES = frozenset({"json_lines.suffix", "shop.desc", "functions.text"})
"""Of the kind of store that docs/how-to/add-a-store.md adds; values in examples."""
FOREIGN_PROPERTIES = frozenset({"auto.offset.reset", "properties.bootstrap.servers", "scan.startup.mode"})
"""Of Flink and ksqlDB, on the pages about migration."""


def test_properties_that_are_named_exist() -> None:
    index = property_index(KINDS)
    named = {
        name
        for text in pages().values()
        for name in re.findall(r"'([a-z_]+(?:\.[a-z_]+)+)'", text)
        if not name.endswith((".toml", ".sql", ".py", ".txt"))
    }
    assert len(named) > 10
    assert not {name for name in named if index.find(name) is None} - EXAMPLE_PROPERTIES - FOREIGN_PROPERTIES
