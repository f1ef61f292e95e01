# SPDX-License-Identifier: Apache-2.0
"""make_documents.py SCHEMAS MODULE: writes MODULE, which declares the JSON documents of tpx as types, from the JSON
Schemas in the folder SCHEMAS."""
import json
import keyword
import pathlib
import re
import sys


def class_name(words):
    """ "plan-summary" -> "PlanSummary"."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", words))


def declaration(name, keys, description):
    """A TypedDict that requires `keys`."""
    if not all(map(is_name, keys)):
        return functional(name, keys)
    lines = f'    """{description}"""\n\n' if description else ""
    return f"class {name}(TypedDict):\n{lines}" + members(keys)


def extension(name, keys):
    """A TypedDict with the keys of _`name` and the optional `keys`."""
    if all(map(is_name, keys)):
        return f"class {name}(_{name}, total=False):\n{members(keys)}"
    return functional(f"_Optional{name}", keys, total=False) + f"\n\nclass {name}(_{name}, _Optional{name}):\n    pass\n"


def functional(name, keys, total=True):
    """A TypedDict with keys that a class statement cannot declare, such as "from"."""
    lines = "".join(f"    {key!r}: {kind!r},\n" for key, kind in keys.items())
    return f'{name} = TypedDict("{name}", {{\n{lines}}}{"" if total else ", total=False"})\n'


def is_name(key):
    return key.isidentifier() and not keyword.iskeyword(key)


def members(keys):
    return "".join(f"    {key}: {kind}\n" for key, kind in keys.items()) or "    pass\n"


class Module:
    """The types of all schemas. A key whose value is an object has a type named after the key: PlanSummaryHosts."""

    scalars = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

    def __init__(self, schemas):
        self.schemas = schemas
        self.done = {}  # name of a type -> its text
        self.origin = {}  # name of a type -> its schema and the file that contains the schema

    def name_of_file(self, stem):
        return class_name(re.sub(r"-\d+$", "", stem))

    def type_of(self, schema, name, stem):
        """The type of values of `schema`, a part of the schema `stem`; objects in it become the type `name`."""
        if "$ref" in schema:
            file, _, part = schema["$ref"].partition("#")
            if file:
                return self.name_of_file(file[: -len(".json")])
            part = part.rpartition("/")[2]
            return self.type_of(self.schemas[stem]["$defs"][part], self.name_of_file(stem) + class_name(part), stem)
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self.type_of(option, name, stem) for option in schema["anyOf"]))
        if "oneOf" in schema and "properties" not in schema:
            return self.union_of(schema, name, stem)
        if "enum" in schema or "const" in schema:
            return f"Literal[{', '.join(repr(value) for value in schema.get('enum', [schema.get('const')]))}]"
        kind = schema.get("type", "")
        if isinstance(kind, list):
            return " | ".join(self.type_of({**schema, "type": each}, name, stem) for each in kind)
        if kind == "array":
            items = schema.get("items") or schema["prefixItems"][1]
            return f"list[{self.type_of(items, name, stem)}]"
        if kind != "object":
            return self.scalars.get(kind, "Any")
        if "properties" in schema:
            return self.class_of(schema, name, stem)
        return f"dict[str, {self.type_of(schema.get('additionalProperties', {}), name, stem)}]"

    def union_of(self, schema, name, stem):
        """One type with the keys of all alternatives; keys that not all alternatives require are optional."""
        options = schema["oneOf"]
        keys = {}
        for option in options:
            for key, value in option["properties"].items():
                known = keys.setdefault(key, {"anyOf": []})["anyOf"]
                if value not in known:
                    known.append(value)
        required = [key for key in keys if all(key in option["required"] for option in options)]
        return self.class_of({**schema, "properties": keys, "required": required}, name, stem)

    def class_of(self, schema, name, stem):
        if self.origin.setdefault(name, (stem, schema)) != (stem, schema):
            raise ValueError(f"{stem}.json and {self.origin[name][0]}.json both have a type {name}")
        if name in self.done:
            return name
        self.done[name] = ""  # so that this type precedes the types of its parts
        keys = {key: self.type_of(value, name + class_name(key), stem) for key, value in schema["properties"].items()}
        required = {key: kind for key, kind in keys.items() if key in schema["required"]}
        optional = {key: kind for key, kind in keys.items() if key not in required}
        base = declaration("_" + name if optional else name, required, schema.get("description", ""))
        self.done[name] = base + (f"\n\n{extension(name, optional)}" if optional else "")
        return name

    def text(self):
        for stem, schema in self.schemas.items():
            name = self.name_of_file(stem)
            self.type_of(schema, name, stem)
        head = '"""The JSON documents of tpx; generated from its JSON Schemas. tpx-json(7) describes the keys."""\n'
        head += "from __future__ import annotations\n\nfrom typing import Any, Literal, TypedDict\n"
        return head + "".join(f"\n\n{text}" for text in self.done.values())


if __name__ == "__main__":
    folder, target = map(pathlib.Path, sys.argv[1:])
    schemas = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    target.write_text(Module(schemas).text())
