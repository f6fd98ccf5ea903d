"""The OpenAPI document of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec import Struct

from dragoman.config import Secret
from dragoman.operations.inputs import bare, fields_of, path_field
from dragoman.operations.operation import Http, Operation, Text, Upload

_REFERENCE = "#/components/schemas/{name}"
_JSON = "application/json"


class ErrorDetails(Struct, frozen=True, omit_defaults=True):
    """What went wrong. `param` is the field or parameter at fault; some types have further
    members."""

    type: str
    message: str
    param: str | None


class Error(Struct, frozen=True):
    """An error."""

    error: ErrorDetails


class Events(Struct, frozen=True):
    """The output type of operations that send server-sent events."""


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """The document, as JSON has it."""
    listed = [one for one in operations if one.http]
    outputs = [_output(one, http) for one in listed for http in one.http]
    types = [*dict.fromkeys(one.input for one in listed), Error]
    types += [output for output in outputs if output not in (Text, Events, object)]
    schemas, components = msgspec.json.schema_components(
        types, schema_hook=_schema_of, ref_template=_REFERENCE
    )
    of_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in listed:
        whole = _input_schema(of_type[operation.input], components)
        for http in operation.http:
            path = paths.setdefault(f"/admin/{http.path}", {})
            path[http.method.lower()] = _operation(operation, http, whole, of_type)
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "dragoman /admin",
            "version": version,
            "description": "What an administrator can do. A viewer may call what only reads.",
        },
        "paths": paths,
        "components": {
            "schemas": _used(paths, components),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "session": {"type": "apiKey", "in": "cookie", "name": "dragoman_session"},
            },
        },
        "security": [{"bearer": []}, {"key": []}, {"session": []}],
    }
    plain: dict[str, Any] = _plain(made)
    return plain


def _operation(
    operation: Operation, http: Http, whole: dict[str, Any], of_type: Mapping[Any, Any]
) -> dict[str, Any]:
    in_path = {
        name: path_field(operation.input, name) for name in re.findall(r"{(\w+)}", http.path)
    }
    in_query = [
        name
        for name in fields_of(operation.input)
        if name in http.query
        or (
            http.method in ("GET", "DELETE")
            and name not in in_path.values()
            and name not in http.fixed
        )
    ]
    properties, required = whole.get("properties", {}), whole.get("required", [])
    made: dict[str, Any] = {
        "operationId": _id(operation, http),
        "summary": operation.summary,
        "tags": [operation.name.partition(".")[0]],
        "x-role": operation.role,
        "parameters": [
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": {"type": "integer" if _is_int(operation, field) else "string"},
                }
                for name, field in in_path.items()
            ),
            *(_parameter(name, properties[name], name in required) for name in in_query),
        ],
        "responses": {
            str(http.status): {
                "description": "Done.",
                "content": _content(_output(operation, http), of_type),
            },
            "default": {
                "description": "An error.",
                "content": {_JSON: {"schema": of_type[Error]}},
            },
        },
    }
    if operation.details:
        made["description"] = operation.details
    if operation.audit:
        made["x-audit"] = list(operation.audit)
    if operation.role == "anyone":
        made["security"] = []
    if http.file:
        media = "application/octet-stream"
        made["requestBody"] = {"required": True, "content": {media: {}}}
        return made
    others = {*in_path.values(), *in_query, *http.fixed}
    body = {name: schema for name, schema in properties.items() if name not in others}
    if body:
        needed = [name for name in required if name in body]
        schema = {"type": "object", "properties": body, "additionalProperties": False}
        if needed:
            schema["required"] = needed
        made["requestBody"] = {"required": bool(needed), "content": {_JSON: {"schema": schema}}}
    return made


def _id(operation: Operation, http: Http) -> str:
    """The name of an operation; where it has several paths, with what distinguishes these."""
    if len(operation.http) == 1:
        return operation.name
    return operation.name + "".join(
        f".{part}" for part in http.path.split("/") if part not in operation.name
    ).replace("{", "").replace("}", "")


def _parameter(name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    made = {"name": name, "in": "query", "required": required, "schema": schema}
    if schema.get("type") == "array":
        made |= {"style": "form", "explode": False}
    return made


def _content(output: Any, of_type: Mapping[Any, Any]) -> dict[str, Any]:
    if output is Events:
        return {"text/event-stream": {}}
    if output is Text:
        return {"text/plain": {}}
    return {_JSON: {"schema": of_type.get(output, {})}}


def _output(operation: Operation, http: Http) -> Any:
    return get_args(operation.output)[0] if http.only else operation.output


def _is_int(operation: Operation, name: str) -> bool:
    return bare(fields_of(operation.input)[name].type) is int


def _input_schema(schema: dict[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    return components[reference.rpartition("/")[2]] if reference else schema


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"type": "string", "writeOnly": True}
    if kind is Upload:
        return {"type": "string", "format": "binary"}
    if kind is object:
        return {"description": "Any value."}
    raise NotImplementedError(kind)


def _used(paths: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """The components that are referred to."""
    found: dict[str, Any] = {}
    waiting = list(_references(paths))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = components[name]
            waiting += _references(components[name])
    return dict(sorted(found.items()))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


def _plain(value: Any) -> Any:
    """A document without what Python's regular expressions have of their own."""
    if isinstance(value, dict):
        return {
            name: one.replace("\\Z", "$")
            if name == "pattern" and isinstance(one, str)
            else _plain(one)
            for name, one in value.items()
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value
