"""Conditions of the topic: functions of the project, and arguments of special forms."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "FORM_ARGUMENT_TYPE",
        "user",
        "{form} cannot take {types}",
        "write {expected}; CAST converts a value",
        "42883",
    ),
    Condition(
        "DUPLICATE_FUNCTION", "user", "the function {function} is declared twice", "remove one of the two", "42P15"
    ),
    Condition(
        "DUPLICATE_FUNCTION_SOURCE",
        "user",
        "the function source {name} is declared twice",
        "rename or remove one of the two",
        "42P16",
    ),
    Condition(
        "UNKNOWN_FUNCTION_SOURCE",
        "user",
        "no function source is called {name}, or it was refused",
        "did you mean {nearest}? otherwise add CREATE FUNCTION_SOURCE {name}",
        "3D018",
    ),
    Condition("FUNCTION_IS_BUILT_IN", "user", "{name} is a function of the dialect", "choose another name", "42P15"),
    Condition("FUNCTION_PROPERTY_MISSING", "user", "{name} does not say where its code is", "write {needed}", "22023"),
    Condition(
        "FUNCTION_PROPERTY_UNUSED",
        "user",
        "'{property}' has no meaning for LANGUAGE {language}",
        "leave it out; JAVA has 'source.name' and 'class.name', PYTHON 'module', 'function' and 'vectorized'",
        "22023",
    ),
    Condition("FUNCTION_LANGUAGE", "user", "functions in {language} cannot be run", "write JAVA or PYTHON", "0A000"),
    Condition(
        "FUNCTION_FILE_INVALID",
        "user",
        "the code in {file} cannot be used: {reason}",
        "name a jar or a Python module of the project, relative to the project's folder",
        "58P01",
    ),
    Condition(
        "FUNCTION_NOT_IN_FILE",
        "user",
        "{file} has no {entry}",
        "did you mean {nearest}? write the full name of a class, or a function defined at the top of the module",
        "42883",
    ),
    Condition(
        "FUNCTION_ARITY",
        "user",
        "{entry} in {file} cannot be called with {count} arguments by position",
        "give CREATE FUNCTION as many arguments as the function takes",
        "42883",
    ),
    Condition(
        "FUNCTION_WITHOUT_ARGUMENTS",
        "user",
        "the function {name} must take 1 to {most} arguments",
        "pass a column; a value that is the same for all rows needs no function, write it into the query",
        "0A000",
    ),
    Condition(
        "MAP_KEY_TYPE",
        "user",
        "the keys of a MAP cannot be {type}",
        "keys of a MAP are single values: write ARRAY<STRUCT<key …, value …>>, or a text as the key, JSON_STRING(key)",
        "42601",
    ),
    Condition(
        "FUNCTION_TYPE_NOT_BUILT",
        "not_yet",
        "the function {name} cannot take or give {type}",
        "use {able}; pass nested values as JSON_STRING(value)",
        "0A000",
    ),
    Condition(
        "FUNCTION_REFUSED", "user", "the function {name} was refused", "correct its CREATE FUNCTION first", "42883"
    ),
    Condition(
        "FUNCTION_CLASS_UNFIT",
        "user",
        "the class {entry} is not a valid function {function}: {reason}",
        "a public class with a public constructor without parameters and one public method evaluate (or eval) with as "
        "many parameters; the page Functions of your own of the documentation says which types",
        "42883",
    ),
    Condition(
        "FUNCTION_FAILED",
        "user",
        "the function {function} failed: {reason}",
        "correct the function, or leave out such rows: QUERY WITH ('row.error.handling' = 'IGNORE_AND_LOG')",
        "38000",
    ),
)
