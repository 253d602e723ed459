"""Conditions of the topic: schema registries, descriptors, and the records they describe."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "UNKNOWN_SCHEMA_REGISTRY",
        "user",
        "no schema registry is called {name}",
        "did you mean {nearest}? otherwise write CREATE SCHEMA_REGISTRY {name} WITH (…)",
        "3D009",
    ),
    Condition(
        "SCHEMA_REGISTRY_REFUSED",
        "user",
        "the schema registry {name} was refused",
        "correct CREATE SCHEMA_REGISTRY {name} first",
    ),
    Condition(
        "DUPLICATE_SCHEMA_REGISTRY",
        "user",
        "the schema registry {name} is declared twice",
        "rename or remove one of the two",
        "42P18",
    ),
    Condition(
        "REGISTRY_TYPE_UNKNOWN",
        "user",
        "the schema registry {name} is of type {type}",
        "write 'type' = {known}",
        "3D008",
    ),
    Condition(
        "REGISTRY_PROPERTY_MISSING",
        "user",
        "the schema registry {registry} needs {name}: {reason}",
        "write '{name}' = {example}",
        "3D021",
    ),
    Condition(
        "REGISTRY_PROPERTY_OF_OTHER_TYPE",
        "user",
        "the property {name} has no meaning for a schema registry of type {type}",
        "it is for {types}; remove it or change the type",
    ),
    Condition(
        "AVRO_NEEDS_REGISTRY",
        "user",
        "the records of {relation} are Avro, and its store {store} has no schema registry here",
        "write CREATE SCHEMA_REGISTRY and name it in CREATE STORE {store} with 'schema_registry.name'; an overlay of "
        "local servers has to name the address of the registry too; otherwise use 'value.format' = 'json'",
    ),
    Condition(
        "PROTOBUF_NEEDS_SCHEMA",
        "user",
        "the records of {relation} are Protobuf, and their message type is not declared",
        "write CREATE DESCRIPTOR_SOURCE and name the message with 'value.descriptor.name' or 'key.descriptor.name', or "
        "name a schema registry in CREATE STORE {store} with 'schema_registry.name'",
    ),
    Condition(
        "JSON_SCHEMA_NEEDS_REGISTRY",
        "user",
        "the records of {relation} are JSON of a registered schema, and its store {store} has no schema registry here",
        "write CREATE SCHEMA_REGISTRY and name it in CREATE STORE {store} with 'schema_registry.name'; plain JSON is "
        "'value.format' = 'json'",
    ),
    Condition(
        "FORMAT_QUESTION_NOT_YET",
        "not_yet",
        "records of {relation} are {format}, which `ds query` does not decode yet",
        "CREATE MATERIALIZED VIEW … AS SELECT from it and query the view; `ds print` shows the raw records",
    ),
    Condition(
        "FORMAT_STORE_NOT_YET",
        "not_yet",
        "a store of type {type} does not hold {format} records yet ({relation})",
        "use 'value.format' = 'json', or a KAFKA store",
    ),
    Condition(
        "AVRO_TYPE_UNWRITABLE",
        "user",
        "{subject} cannot be written as Avro: the column {column} is {type}",
        "{fix}",
    ),
    Condition(
        "AVRO_NAME_INVALID",
        "user",
        "{subject} cannot be written as Avro: {name} is not a valid name there",
        "give the column another name with AS: letters, digits and _, no digit first",
    ),
    Condition(
        "AVRO_SCHEMA_UNREADABLE",
        "user",
        "an Avro schema cannot be read: {reason}",
        "register a new version of it; parts under other subjects are read, not extended",
    ),
    Condition(
        "SCHEMA_NOT_RECORDED",
        "user",
        "the columns of {relation} are in the schema registry {registry}, and the project has no copy of {subject}",
        "run `ds schemas` where the registry can be reached and keep the folder schemas/ with the SQL, or list the "
        "columns",
        "3E002",
    ),
    Condition(
        "SCHEMA_MISSING",
        "user",
        "the schema registry {registry} has no subject {subject}",
        "correct 'topic', register the schema first, or list the columns of {relation}",
        "3D009",
    ),
    Condition(
        "SCHEMA_COPY_OUTDATED",
        "user",
        "the copy of {subject} is not its newest version in the schema registry {registry}: {difference}",
        "run `ds schemas` and look at what changes",
    ),
    Condition(
        "SOURCE_SCHEMA_CHANGED",
        "user",
        "{subject} has version {version} in the schema registry {registry}: {difference}; it affects {columns} of "
        "{relation}",
        "{fix}",
    ),
    Condition(
        "SCHEMA_FIELD_WITHOUT_TYPE",
        "user",
        "the field {field} of {subject} is {type}, which no SQL type holds",
        "list the columns you need: CREATE … (name TYPE, …) WITH (…)",
    ),
    Condition(
        "AVRO_VALUE_UNWRITABLE",
        "user",
        "a row of {subject} does not fit its schema: {reason}",
        "filter such rows with WHERE or COALESCE them, or register a schema that allows them",
    ),
    Condition(
        "REGISTRY_UNREACHABLE",
        "unreachable",
        "the schema registry {registry} at {address} does not answer",
        "check the address, its certificate and that the server runs; it is retried",
        "57015",
    ),
    Condition(
        "REGISTRY_LOGIN_REFUSED",
        "user",
        "the schema registry {registry} at {address} refused {user}",
        "correct user and password in CREATE SCHEMA_REGISTRY or in the environment, or grant the right",
    ),
    Condition(
        "REGISTRY_CERTIFICATE_UNREADABLE",
        "user",
        "a certificate or key of the schema registry {registry} cannot be read",
        "'tls.ca_cert_file', 'tls.client.cert_file' and 'tls.client.key_file' have to be PEM files on this machine, "
        "the key in PKCS #8 (openssl pkcs8 -topk8) and opened by 'tls.client.key_password' if it is locked",
    ),
    Condition(
        "REGISTRY_CERTIFICATE_REFUSED",
        "user",
        "the schema registry {registry} at {address} requires a client certificate, or refuses this one",
        "name a certificate that its authority signed: 'tls.client.cert_file' and 'tls.client.key_file' in CREATE "
        "SCHEMA_REGISTRY",
    ),
    Condition(
        "REGISTRY_CALL_FAILED",
        "external",
        "the schema registry {registry} failed to {action}",
        "see the registry's own log; it is retried",
    ),
    Condition(
        "SCHEMA_OF_OTHER_TYPE",
        "user",
        "the subject {subject} in the schema registry {registry} holds {type} schemas, not {wanted}",
        "use another topic, or another 'value.format' and 'key.format'",
    ),
    Condition(
        "SCHEMA_INCOMPATIBLE",
        "user",
        "the schema registry {registry} refuses a new version of {subject}: {difference}",
        "change the SELECT so that its columns fit, write to another topic, or change the compatibility of the subject",
    ),
    Condition(
        "SCHEMA_INVALID",
        "user",
        "the schema registry {registry} refuses the schema of {subject}",
        "rename or retype the columns it complains about",
    ),
    Condition(
        "PROTOBUF_SCHEMA_AS_TEXT",
        "user",
        "the schema registry {registry} gives {subject} as text only, not as a compiled descriptor",
        "use a registry that answers format=serialized, register the schema compiled as Confluent's Python and .NET "
        "clients do, or name the message of a descriptor source",
    ),
    Condition(
        "PROTOBUF_SCHEMA_UNREADABLE",
        "user",
        "a Protobuf schema cannot be read: {reason}",
        "compile it again: protoc --include_imports --descriptor_set_out=FILE",
    ),
    Condition(
        "PROTOBUF_TYPE_UNWRITABLE",
        "user",
        "{subject} cannot be written as Protobuf: the column {column} is {type}",
        "{fix}",
    ),
    Condition(
        "PROTOBUF_NAME_INVALID",
        "user",
        "{subject} cannot be written as Protobuf: {name} is not a valid name there, or differs from "
        "another column in _ and case only",
        "give the column another name with AS: letters, digits and _, no digit first",
    ),
    Condition(
        "PROTOBUF_VALUE_UNWRITABLE",
        "user",
        "a row of {subject} does not fit its message: {reason}",
        "filter such rows with WHERE or COALESCE them, or use a message that allows them",
    ),
    Condition(
        "PROTOBUF_FIELD_MISSING",
        "user",
        "the message {message} has no field {name}",
        "did you mean {nearest}? list or select only columns that the message has, under its names",
    ),
    Condition(
        "PROTOBUF_FIELD_TYPE",
        "user",
        "the column {name} is {type}, which does not fit the field of {message}: {field}",
        "CAST the column, or change the message and compile it again",
    ),
    Condition(
        "PROTOBUF_FIELD_REQUIRED",
        "user",
        "the message {message} requires fields that no column fills: {names}",
        "select them too",
    ),
    Condition(
        "JSON_SCHEMA_UNREADABLE",
        "user",
        "a JSON Schema cannot be read: {reason}",
        "register a new version of it, or list the columns",
    ),
    Condition(
        "JSON_SCHEMA_TYPE_UNWRITABLE",
        "user",
        "{subject} cannot be written as JSON: the column {column} is {type}",
        "{fix}",
    ),
    Condition(
        "DUPLICATE_DESCRIPTOR_SOURCE",
        "user",
        "the descriptor source {name} is declared twice",
        "rename or remove one of the two",
    ),
    Condition(
        "DESCRIPTOR_SOURCE_WITHOUT_FILE",
        "user",
        "the descriptor source {name} names no file",
        "write 'file' = 'shop.desc', relative to the project",
        "3D021",
    ),
    Condition(
        "DESCRIPTOR_FILE_INVALID",
        "user",
        "the file of descriptors {file} cannot be used: {reason}",
        "make it with protoc --include_imports --descriptor_set_out=FILE and keep it in the project",
    ),
    Condition(
        "DESCRIPTOR_SOURCE_REFUSED",
        "user",
        "the descriptor source {name} was refused",
        "correct CREATE DESCRIPTOR_SOURCE {name} first",
    ),
    Condition(
        "UNKNOWN_DESCRIPTOR",
        "user",
        "no descriptor source has the message {value} that {name} names",
        "did you mean {nearest}? write its full name with the package; otherwise add CREATE DESCRIPTOR_SOURCE",
        "3D010",
    ),
    Condition(
        "DESCRIPTOR_AMBIGUOUS",
        "user",
        "several descriptor sources have the message {value} that {name} names: {places}",
        "write the source's name before it, as in the list",
    ),
    Condition(
        "DESCRIPTOR_WITHOUT_PROTOBUF",
        "user",
        "{name} has no meaning where {format} is {is}",
        "write '{format}' = 'protobuf', or leave {name} out",
    ),
)
