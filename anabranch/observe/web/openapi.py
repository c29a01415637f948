"""The API's own description, made from the operations and the types of their answers: it cannot fall behind them."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from anabranch.observe.web.model import ErrorView

JSON = "application/json"


@dataclass(frozen=True)
class Operation:
    """One thing the API does. `answer` is the type of its JSON, or a media type of text.

    `unwell` is the status with which it answers the same when things are not as they should be.
    """

    method: str
    path: str
    summary: str
    answer: Any
    limit: tuple[int, int] | None = None
    unwell: int | None = None

    @property
    def changes(self) -> bool:
        return self.method == "POST"

    @property
    def id(self) -> str:
        words = [word.strip("{}") for word in self.path.removeprefix("/api").strip("/").split("/")]
        return "_".join([self.method.lower(), *(word.replace(".", "_") for word in words)])


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    schemas: dict[str, Any] = {}
    schema_of(ErrorView, schemas)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Anabranch",
            "version": version,
            "description": "What the stream tables of a lake are doing and why; pause, resume and refresh them. "
            "Tables are named by name, in any case, or by id. Instants are ISO 8601 in UTC.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type; dataclasses go into `schemas` and are referred to."""
    simple = {str: "string", int: "integer", float: "number", bool: "boolean"}
    if kind in simple:
        return {"type": simple[kind]}
    if is_dataclass(kind):
        return _reference(typing.cast(type, kind), schemas)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _union(arguments, schemas)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": schema_of(arguments[0], schemas)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], schemas)}
    raise TypeError(f"{kind} has no JSON schema")


def _reference(kind: type, schemas: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in schemas:
        schemas[name] = {}
        hints = typing.get_type_hints(kind)
        schemas[name] = {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").split()),
            "properties": {each.name: schema_of(hints[each.name], schemas) for each in fields(kind)},
            "required": [each.name for each in fields(kind)],
            "additionalProperties": False,
        }
    return {"$ref": f"#/components/schemas/{name}"}


def _union(arguments: tuple[Any, ...], schemas: dict[str, Any]) -> dict[str, Any]:
    found = [schema_of(each, schemas) for each in arguments if each is not types.NoneType]
    if types.NoneType in arguments:
        found.append({"type": "null"})
    return {"anyOf": found}


def _described(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    if isinstance(operation.answer, str):
        content = {operation.answer: {"schema": {"type": "string"}}}
    else:
        content = {JSON: {"schema": schema_of(operation.answer, schemas)}}
    problem = {JSON: {"schema": {"$ref": "#/components/schemas/ErrorView"}}}
    responses: dict[str, Any] = {"200": {"description": operation.summary, "content": content}}
    if operation.unwell is not None:
        responses[str(operation.unwell)] = {"description": "Not as it should be.", "content": content}
    if "{table}" in operation.path:
        responses["404"] = {"description": "There is no such table.", "content": problem}
    if operation.changes:
        responses["401"] = {"description": "The token is missing or wrong.", "content": problem}
        responses["403"] = {"description": "The request comes from another site.", "content": problem}
        responses["409"] = {"description": "It does not fit the state of the lake.", "content": problem}
    responses["default"] = {"description": "What went wrong.", "content": problem}
    found: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": responses,
    }
    if parameters := _parameters(operation):
        found["parameters"] = parameters
    if operation.changes:
        found["security"] = [{"token": []}]
        found["requestBody"] = {"required": False, "content": {JSON: {"schema": {"type": "object"}}}}
    return found


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{table}" in operation.path:
        found.append({"name": "table", "in": "path", "required": True, "schema": {"type": "string"}})
    if operation.limit is not None:
        default, most = operation.limit
        schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
        found.append({"name": "limit", "in": "query", "required": False, "schema": schema})
    return found
