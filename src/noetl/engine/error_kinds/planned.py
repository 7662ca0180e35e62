"""Families of kinds that the specification lists, and that no tool makes yet (S-65)."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

PLANNED = {
    "inputs.invalid": ErrorKind(
        "The workload does not fit the inputs that the playbook declares.",
        "Compare it with `metadata.inputs` of the playbook.",
        reserved="declared inputs",
    ),
    "environment.*": ErrorKind(
        "The environment of a task could not be prepared.",
        "Check its packages, and that its pool allows environments.",
        None,
        reserved="environments",
    ),
    "container.*": ErrorKind(
        "A container could not be run, or ended with an error.",
        "Check its image and the settings of its pool.",
        None,
        reserved="the kind container",
    ),
    "object.*": ErrorKind(
        "An object store refused an operation, or has no such object.",
        "Check the name of the object and the rights of the credential.",
        None,
        reserved="the kinds of object stores",
    ),
    "sql.*": ErrorKind(
        "A database refused a command.",
        "Read the message of the database.",
        None,
        reserved="the kinds of other databases",
    ),
    "llm.*": ErrorKind(
        "A language model refused a request, or its answer does not fit.",
        "Check the request and its limits.",
        None,
        reserved="the kind llm",
    ),
    "mcp.*": ErrorKind(
        "A server of the Model Context Protocol refused a call.",
        "Check the name of its tool and the arguments.",
        None,
        reserved="the kind mcp",
    ),
    "mail.*": ErrorKind(
        "A message could not be sent.",
        "Check the server, its credential and the addresses.",
        None,
        reserved="the kind mail",
    ),
    "nats.*": ErrorKind(
        "NATS refused a message or a request.",
        "Check the subject and the permissions.",
        None,
        reserved="the kind nats",
    ),
}
