"""Calls into the JVM that wait: those that only make columns are sent together, before the next call that does more.

A plan takes a few hundred calls, most of which make a column of another one. Each is a round trip between two
processes: a tenth of a millisecond in a JVM that is warm, several times as long in one that starts. :class:`Deferred`
answers such a call at once, with a name of its own for the result, and sends all that wait as one message
(``dsdagster.session.DeferredCalls``) before the next call of another kind. A call that fails does so then.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j import java_gateway, protocol
from py4j.java_gateway import JavaObject

FUNCTIONS = "org.apache.spark.sql.functions"
PYTHON_UTILS = "org.apache.spark.api.python.PythonUtils"
_OTHER_RESULTS = frozenset({"broadcast", "udf", "udaf"})
"""Functions of Spark whose result is no column."""
_OWN = "dsdagster."
_OWN_COLUMNS = ("column", "opaqueNull")
_OWN_FUNCTIONS = "dsdagster.scalar."
"""Static methods of our jar whose result is a column: those of these names, and all of a package."""
_SEQUENCES = frozenset({("dsdagster.Lists", "of"), (PYTHON_UTILS, "toSeq")})
"""Static methods that only put their arguments together."""
_OF_COLUMNS = frozenset(
    [
        "and",
        "apply",
        "as",
        "cast",
        "divide",
        "endsWith",
        "eqNullSafe",
        "equalTo",
        "geq",
        "getField",
        "getItem",
        "gt",
        "isNaN",
        "isNotNull",
        "isNull",
        "isin",
        "leq",
        "like",
        "lt",
        "minus",
        "mod",
        "multiply",
        "notEqual",
        "or",
        "otherwise",
        "over",
        "plus",
        "rlike",
        "startsWith",
        "substr",
        "try_cast",
        "when",
    ]
)
"""Methods of a column whose result is a column."""
_RUN = "dsdagster.session.DeferredCalls"
_COLUMN, _SEQUENCE = "column", "sequence"
"""How names of results begin; the JVM's own begin with ``o``."""


@dataclass(slots=True, eq=False)
class _Calls:
    """Calls of one thread that are sent together, once.

    Attributes:
        names: of their results.
        commands: as py4j would send them.
        unused: names that Python has forgotten meanwhile.
        needed: names of the objects that the commands have.
        held: those of them that Python has forgotten meanwhile; they are released when the commands are sent.
        is_closed: no more calls are added.
        sending: held while they are sent.
    """

    names: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    unused: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    is_closed: bool = False
    sending: threading.Lock = field(default_factory=threading.Lock)


class Deferred:
    """Sends the commands of a client, in place of ``JavaClient.send_command``. Each thread has its own calls that wait,
    so a call that fails does so in the thread that has made it.

    Args:
        client: of a session whose JVM has our jar.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._send = client.send_command
        self._gateway = JavaObject(protocol.GATEWAY_SERVER_OBJECT_ID, client).getGateway()
        self._numbers = itertools.count()
        self._thread = threading.local()
        self._waiting: dict[str, _Calls] = {}
        self._open: set[_Calls] = set()
        self._lock = threading.RLock()  # Python may forget an object while this thread holds it

    def __call__(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """Answer a command that makes a column or a sequence; send any other one, behind those that wait.

        Raises:
            Exception: as any call of py4j, also for a call that has waited.
        """
        own, lines = self._own(), command.split("\n")
        names = _names(lines)
        for calls in self._others(names, own):
            self._send_all(calls)
        if result := _result(lines):
            return protocol.SUCCESS + protocol.REFERENCE_TYPE + self._wait(result, command, names)
        self._send_all(own)
        return self._send(command, retry, binary)

    def forget(self, name: str) -> bool:
        """Whether an object that Python no longer needs must not be released yet: it is the result of a call that
        waits, and is then not kept, or such a call has it. Calls without any result that is needed are not sent."""
        with self._lock:
            calls = self._waiting.get(name)
            if calls is not None:
                calls.unused.add(name)
                if not calls.is_closed and len(calls.unused) == len(calls.names):
                    calls.is_closed = True
                    self._drop(calls, calls.names)
                return True
            for calls in tuple(self._open):
                if name in calls.needed:
                    calls.held.add(name)
                    return True
        return False

    def _own(self) -> _Calls:
        calls: _Calls | None = getattr(self._thread, "calls", None)
        if calls is None or calls.is_closed:
            calls = self._thread.calls = _Calls()
        return calls

    def _others(self, names: Iterable[str], own: _Calls) -> Iterable[_Calls]:
        """Calls, mostly of other threads, whose results a command has."""
        if len(self._waiting) == len(own.names):
            return ()
        others = map(self._waiting.get, names)
        return [calls for calls in others if calls is not None and calls is not own]

    def _wait(self, result: str, command: str, names: Iterable[str]) -> str:
        name = f"{result}{next(self._numbers)}"
        with self._lock:
            own = self._own()
            own.names.append(name)
            own.commands.append(command.removeprefix(protocol.CALL_COMMAND_NAME))
            own.needed.update(names)
            self._waiting[name] = own
            self._open.add(own)
        return name

    def _send_all(self, calls: _Calls) -> None:
        """Send calls unless another thread does; returns when they are sent."""
        with calls.sending:
            with self._lock:
                if calls.is_closed or not calls.names:
                    return
                calls.is_closed, unused = True, set(calls.unused)
            try:
                self._run(calls.names, calls.commands, unused)
            finally:
                with self._lock:
                    self._drop(calls, unused)

    def _drop(self, calls: _Calls, released: Iterable[str]) -> None:
        """Forget calls, and release what Python has forgotten meanwhile, unless others need it or the JVM does not have
        it any more."""
        self._open.remove(calls)
        for name in calls.names:
            del self._waiting[name]
        for name in (calls.held | calls.unused).difference(released):
            self._client.garbage_collect_object(name)

    def _run(self, names: Sequence[str], commands: Sequence[str], unused: Collection[str]) -> None:
        target = protocol.STATIC_PREFIX + _RUN
        arguments = (self._gateway, ",".join(names), "".join(commands), ",".join(unused))
        parts = "".join(map(protocol.get_command_part, arguments))
        header = f"{protocol.CALL_COMMAND_NAME}{target}\nrun\n"
        answer = self._send(header + parts + protocol.END_COMMAND_PART)
        java_gateway.get_return_value(answer, self._client, target, "run")


def _names(lines: Sequence[str]) -> Iterable[str]:
    """Names of the objects that a command has: its target and arguments."""
    _, target, *arguments = lines
    return [target, *(line[1:] for line in arguments if line.startswith(protocol.REFERENCE_TYPE))]


def _result(lines: Sequence[str]) -> str:
    """How the name of a command's result begins; empty for a command that does not wait."""
    if lines[0] + "\n" != protocol.CALL_COMMAND_NAME:
        return ""
    target, method = lines[1:3]
    if target.startswith(_COLUMN):
        return _COLUMN if method in _OF_COLUMNS else ""
    owner = target.removeprefix(protocol.STATIC_PREFIX)
    if owner == FUNCTIONS:
        return "" if method in _OTHER_RESULTS else _COLUMN
    if owner.startswith(_OWN_FUNCTIONS) or (owner.startswith(_OWN) and method in _OWN_COLUMNS):
        return _COLUMN
    return _SEQUENCE if (owner, method) in _SEQUENCES else ""
