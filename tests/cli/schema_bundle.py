# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of man/schemas as one bundle, so that validators need not open files."""
import json
import pathlib


def read_schemas(folder):
    """The schemas in `folder`, by file name without ".json"."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.json"))}


def without_files(value, own):
    """`value`, a part of schema `own`, with references to files and their parts replaced by references to the
    bundle."""
    if isinstance(value, list):
        return [without_files(item, own) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: without_files(item, own) for key, item in value.items() if key != "$schema"}
    if "$ref" in changed:
        file, _, part = changed["$ref"].partition("#")
        changed["$ref"] = "#/$defs/" + (file[: -len(".json")] if file else own) + part
    return changed


def bundle_of(schemas):
    return {"$defs": {name: without_files(schema, name) for name, schema in schemas.items()}}
