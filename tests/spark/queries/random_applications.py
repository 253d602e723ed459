"""Random applications: virtual relations, some over others, and several sinks that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Settings
from tests.spark.queries.accepted_statements import KINDS, STORE, Accepted, accepted
from tests.spark.queries.random_parts import Kind, Rows, Select, Statements

NAME = "app"
MOST_SINKS = 4
TRIED = 8
"""SELECTs over virtual relations that are tried at once."""
MOST_VIRTUAL = 2
"""Virtual relations that read no other one."""
SETS = (" UNION ", " EXCEPT ", " INTERSECT ")


@dataclass(frozen=True, slots=True)
class Member:
    """A statement of an application; ``doubled``: an INSERT INTO gives its rows once more."""

    name: str
    words: str
    select: Select
    doubled: bool = False

    @property
    def texts(self) -> list[str]:
        again = [f"INSERT INTO {self.name} {self.select.text};"] if self.doubled else []
        return [f"CREATE {self.words} {self.name} AS {self.select.text};", *again]


@dataclass(frozen=True, slots=True)
class RandomApplication:
    """Statements that the product accepts as one application, with their project."""

    virtual: Sequence[Member]
    sinks: Sequence[Member]
    project: LoadedProject

    @property
    def text(self) -> str:
        return application([*self.virtual, *self.sinks])

    def alone(self, sink: Member) -> Accepted:
        """A sink as a statement that reads no virtual relation."""
        text = f"{sink.select.text} UNION ALL {sink.select.text}" if sink.doubled else sink.select.text
        used: list[Member] = []
        for one in reversed(self.virtual):
            if any(f"{one.name} " in read for read in (text, *(other.select.text for other in used))):
                used.insert(0, one)
        named = ", ".join(f"{one.name} AS ({one.select.text})" for one in used)
        return Accepted(sink.name, self.text, replace(sink.select, text=f"WITH {named} {text}" if used else text))


def application(members: Sequence[Member]) -> str:
    """One statement on each line, the first on the second."""
    inner = "\n".join(text for member in members for text in member.texts)
    return f"BEGIN APPLICATION {NAME}\n{inner}\nEND APPLICATION;"


def random_application(statements: Statements, settings: Settings) -> tuple[RandomApplication | None, list[str]]:
    """The next application, None where too little of it was accepted; and what should not have been said."""
    draft = _Draft(statements, settings)
    right, project, draft.wrong = accepted(statements, settings)
    for one in statements.random.sample(right, min(MOST_VIRTUAL, len(right))):
        relation = project.queries[one.name].sink
        if relation.kind in ("stream", "changelog"):
            draft.add_virtual(one.select, {column.name: column.type for column in relation.columns}, relation.kind)
    draft.add_sinks()
    draft.one_more_virtual()
    draft.add_sinks()
    return draft.application(), draft.wrong


class _Draft:
    """An application of which every part that the product refuses is left out."""

    def __init__(self, statements: Statements, settings: Settings) -> None:
        self.statements = statements
        self.settings = settings
        self.random = statements.random
        self.inside = Statements(self.random, statements.forms, statements.bound)
        self.inside.base = statements.base
        self.virtual: list[Member] = []
        self.sinks: list[Member] = []
        self.project: LoadedProject | None = None
        self.wrong: list[str] = []
        self.names = 0

    def add_virtual(self, select: Select, columns: Mapping[str, object], kind: Kind) -> None:
        """What later statements read."""
        member = Member(self._name("v"), f"VIRTUAL {kind.upper()}", select)
        self.virtual.append(member)
        self.inside.learned.append(Rows(member.name, columns, kind, select.waits))  # type: ignore[arg-type]

    def add_sinks(self) -> None:
        """New sinks, of which those stay that are accepted."""
        for _ in range(TRIED):
            select = self.inside.next()
            words = self.random.choice(KINDS[select.kind])
            doubled = words == "STREAM" and self.random.random() < 0.3 and not any(w in select.text for w in SETS)
            self.sinks.append(Member(self._name("a"), words, select, doubled))
        self._drop_refused()
        reading = [sink for sink in self.sinks if any(f"{one.name} " in sink.select.text for one in self.virtual)]
        others = [sink for sink in self.sinks if sink not in reading]
        self.sinks = [*reading, *others][:MOST_SINKS]
        self._drop_refused()

    def one_more_virtual(self) -> None:
        """One of the sinks becomes virtual."""
        relations = {} if self.project is None else {r.name.name: r for r in self.project.queries[NAME].sinks}
        for sink in self.sinks:
            kind: Literal["stream", "changelog"] | None = {"STREAM": "stream", "CHANGELOG": "changelog"}.get(sink.words)  # type: ignore[assignment]
            if kind and not sink.doubled:
                self.sinks.remove(sink)
                columns = {column.name: column.type for column in relations[sink.name].columns}
                self.add_virtual(sink.select, columns, kind)
                return

    def application(self) -> RandomApplication | None:
        if self.project is None or len(self.sinks) < 2:
            return None
        return RandomApplication(tuple(self.virtual), tuple(self.sinks), self.project)

    def _name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _drop_refused(self) -> None:
        """Compile until nothing is refused; what falls with others stays."""
        while True:
            members = [*self.virtual, *self.sinks]
            lines = [member for member in members for _ in member.texts]
            texts = [("a.sql", STORE + self.statements.declarations()), ("b.sql", application(members))]
            project = compile_texts(texts, self.settings)
            self.wrong += [e.text() for e in project.errors if e.condition == "INTERNAL" or e.span is None]
            own = [e.span.line for e in project.errors if e.span and e.condition != "APPLICATION_REFUSED"]
            refused = [lines[line - 2] for line in own if 2 <= line < len(lines) + 2]
            self.virtual = [member for member in self.virtual if member not in refused]
            self.sinks = [member for member in self.sinks if member not in refused]
            if not refused:
                self.project = None if project.errors else project
                return
