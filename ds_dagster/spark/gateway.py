"""Fewer calls into the JVM: names are looked up once, lists are sent as a whole, and columns are made together.

Building a plan takes a few hundred small calls of a quarter of a millisecond each. Three of four calls of PySpark look
up a class or a method again; for the name of a package, Java searches every jar. :func:`quicken` makes a session's
gateway cache names; :class:`Package` needs no lookup, for names that are known to exist.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

from py4j import protocol
from py4j.java_gateway import JavaClass, JavaMember, JavaObject, JavaPackage
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ds_dagster.spark.deferred import FUNCTIONS, PYTHON_UTILS, Deferred

_LOG = logging.getLogger(__name__)
KNOWN_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "functions": FUNCTIONS,
        "PythonUtils": PYTHON_UTILS,
        "PythonSQLUtils": "org.apache.spark.sql.api.python.PythonSQLUtils",
        FUNCTIONS: FUNCTIONS,
    }
)
"""Classes that PySpark looks up by these names for every function and list; all of their members are methods."""
KEPT_NAMES = ("org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.classic.SparkSession$")
"""Classes that PySpark looks up by name for every session."""
KEPT_PACKAGES = ("org", "java", "scala", "py4j")
_PARTS = 16
"""Elements of a list that one call sends, see ``dsdagster.Lists``."""
RELEASED = 128
"""Objects that one call releases in the JVM."""


class Package:
    """A package of the JVM whose classes are known to exist, so no lookup is needed: capitalized names are classes."""

    def __init__(self, name: str, client: Any) -> None:
        self._name = name
        self._client = client

    def __getattr__(self, name: str) -> Any:
        proxy = KnownClass if name[:1].isupper() else Package
        return proxy(f"{self._name}.{name}", self._client)


class KnownClass:
    """A class of the JVM that is known to exist; its attributes are its static methods."""

    def __init__(self, name: str, client: Any) -> None:
        self._name = name
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return JavaMember(name, None, protocol.STATIC_PREFIX + self._name, self._client)


def package(spark: SparkSession, name: str) -> Any:
    """A package of the session's JVM by its full name. A class that does not exist fails when it is called."""
    return Package(name, cast(Any, spark._jvm)._gateway_client)


def known_class(spark: SparkSession, name: str) -> Any:
    """A class by its full name. A class that does not exist fails when it is called."""
    return KnownClass(name, cast(Any, spark._jvm)._gateway_client)


class KeptClass(JavaClass):  # type: ignore[misc]  # py4j has no types
    """A class that caches its methods; values of fields are read each time."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember | JavaClass):
            setattr(self, name, member)  # looked up once
        return member


class KeptPackage(JavaPackage):  # type: ignore[misc]  # py4j has no types
    """A package that caches its packages and classes: to find out that ``org`` is not a class, Java searches every jar.
    A capitalized name without a class is not cached: its jar may be added later."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaClass):
            setattr(self, name, KeptClass(member._fqn, self._gateway_client))
        elif isinstance(member, JavaPackage) and not name[:1].isupper():
            setattr(self, name, KeptPackage(member._fqn, self._gateway_client, self._jvm_id))
        return vars(self).get(name, member)


class ListConverter:
    """Converts Python lists to ``java.util.ArrayList``: one call per sixteen elements instead of one per element."""

    def can_convert(self, value: object) -> bool:
        """Whether the value is a list or a tuple."""
        return isinstance(value, list | tuple)

    def convert(self, value: Iterable[object], client: Any) -> Any:
        """The list in the JVM."""
        rest = list(value)
        lists = KnownClass("dsdagster.Lists", client)
        java_list = lists.of(len(rest[:_PARTS]), *_padded(rest[:_PARTS]))
        for begin in range(_PARTS, len(rest), _PARTS):
            part = rest[begin : begin + _PARTS]
            lists.add(java_list, len(part), *_padded(part))
        return java_list


def _padded(part: list[object]) -> list[object]:
    return [*part, *[None] * (_PARTS - len(part))]


class Releases:
    """Releases JVM objects that Python no longer needs, many per call, where py4j makes one call per object.

    Up to 127 objects wait for the next call. Only py4j's own thread makes the calls.

    Args:
        client: py4j's.
        forget: whether an object must not be released yet, see :meth:`Deferred.forget`.
    """

    def __init__(self, client: Any, forget: Callable[[str], bool] = lambda _name: False) -> None:
        self._forget = forget
        server = JavaObject(protocol.GATEWAY_SERVER_OBJECT_ID, client)
        self._client = client
        self._known = server.getGateway().getBindings().keySet()
        self._commas = KnownClass("java.util.regex.Pattern", client).compile(",")
        self._waiting: list[str] = []

    def __call__(self, target_id: str, enqueue: bool = True) -> None:
        """In place of ``JavaClient.garbage_collect_object``."""
        if enqueue:
            if not self._forget(target_id):
                self._client.finalizer_deque.appendleft((self._client, target_id))
        elif target_id not in (protocol.ENTRY_POINT_OBJECT_ID, protocol.GATEWAY_SERVER_OBJECT_ID):
            self._waiting.append(target_id)
            if len(self._waiting) >= RELEASED and self._client.is_connected:
                self._release()

    def _release(self) -> None:
        names, self._waiting = ",".join(self._waiting), []
        try:
            self._known.removeAll(self._commas.splitAsStream(names).toList())
        except (Py4JError, OSError):  # the JVM is about to end, as py4j has it
            _LOG.debug("objects were not released", exc_info=True)


def launch_jvm(properties: Mapping[str, str]) -> None:
    """Start this process's JVM with the properties of its first session; does nothing if a JVM runs.

    With our jar, its threads get a class loader that caches names without a class. This must happen before Spark
    starts: the class loaders of its tasks delegate to that of the thread that started Spark.
    """
    threading.Thread(target=_import_numpy, name="ds-numpy", daemon=True).start()
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(properties.items())))
    view = cast(Any, SparkContext._jvm)
    if isinstance(view.dsdagster.session.AbsentClasses, JavaClass):
        view.dsdagster.session.AbsentClasses.install()


def _import_numpy() -> None:
    """Import what PySpark's first call with arguments imports: half a second, in which the JVM starts."""
    with suppress(ImportError):
        import_module("numpy")


def quicken(spark: SparkSession) -> None:
    """Make a session's gateway cache names and release objects in groups; with our jar, also send lists as a whole and
    calls that make columns together."""
    view = cast(Any, spark._jvm)
    client = view._gateway_client
    for name, full_name in KNOWN_NAMES.items():
        vars(view)[name] = KnownClass(full_name, client)
    for name in KEPT_NAMES:
        if name not in vars(view):
            vars(view)[name] = KeptClass(getattr(view, name)._fqn, client)
    for name in KEPT_PACKAGES:
        vars(view).setdefault(name, KeptPackage(name, client, view._id))
    if isinstance(client.garbage_collect_object, Releases):
        return
    if not has_operators(spark):
        client.garbage_collect_object = Releases(client)
        return
    client.converters = [ListConverter(), *(client.converters or ())]
    deferred = Deferred(client)
    client.garbage_collect_object = Releases(client, deferred.forget)
    client.send_command = deferred


def has_operators(spark: SparkSession) -> bool:
    """Whether the JVM was started with our jar; checked once."""
    view = cast(Any, spark._jvm)
    if _HAS_OPERATORS not in vars(view):
        setattr(view, _HAS_OPERATORS, isinstance(view.dsdagster.time.Clocks, JavaClass))
    return bool(vars(view)[_HAS_OPERATORS])


_HAS_OPERATORS = "_has_operators"
