# SPDX-License-Identifier: Apache-2.0
"""documents.py SCHEMAS: checks that each schema in the folder SCHEMAS has its own type in tpx.documents, with exactly
its keys."""
import json
import pathlib
import re
import sys

import tpx.documents

names = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    schema = json.loads(path.read_text())
    if schema.get("type") == "array":  # a list of objects has no keys of its own
        continue
    options = [schema] if "properties" in schema else schema["oneOf"]
    keys = {key for option in options for key in option["properties"]}
    required = {key for key in keys if all(key in option["required"] for option in options)}
    name = "".join(word.capitalize() for word in re.split(r"[-.]", re.sub(r"-\d+$", "", path.stem)))
    assert name not in names, f"{path.name} and {names[name]} have the type {name}"
    names[name] = path.name
    kind = getattr(tpx.documents, name)
    assert kind.__required_keys__ == required, (name, kind.__required_keys__ ^ required)
    assert kind.__required_keys__ | kind.__optional_keys__ == keys, (name, kind.__optional_keys__)
assert len(names) > 30, names
