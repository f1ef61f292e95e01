# SPDX-License-Identifier: Apache-2.0
"""schemas.py SCHEMAS PRINTED SOURCES: validates the output of tpx. A file in PRINTED is the standard output of the
command line in FILE.command, whose exit status is in FILE.status. Checks the schemas as well: all keys are described,
objects allow no other keys, and every document that SOURCES print has a schema."""
import json
import pathlib
import re
import sys

import jsonschema
from schema_bundle import bundle_of, read_schemas

schemas_folder, printed_folder, sources_folder = map(pathlib.Path, sys.argv[1:])
schemas = read_schemas(schemas_folder)
bundle = bundle_of(schemas)
faults = []


def check_schema(name, value, path=""):
    """Whether keys below `path` of a schema are described and fixed."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            check_schema(name, item, f"{path}/{number}")
        return
    if not isinstance(value, dict):
        return
    if "properties" in value:
        if value.get("additionalProperties") is not False:
            faults.append(f"{name}{path}: allows other keys")
        for key, item in value["properties"].items():
            if key != "schema" and "description" not in item:
                faults.append(f"{name}{path}: '{key}' has no description")
            check_schema(name, item, f"{path}/{key}")
    for key, item in value.items():
        if key != "properties":
            check_schema(name, item, f"{path}/{key}")


for name, schema in schemas.items():
    jsonschema.Draft202012Validator.check_schema(schema)
    check_schema(name, schema)
    if not schema["title"].startswith("tpx.") and schema["title"] != name:
        faults.append(f"{name}: has the title {schema['title']}")
    if schema["title"].startswith("tpx.") and schema["title"][len("tpx.") :].replace("/", "-") != name:
        faults.append(f"{name}: describes {schema['title']}")

for source in sorted(sources_folder.glob("*.cpp")):
    for title in re.findall(r'object\(\s*"(tpx\.[^"]*)"', source.read_text()):
        if title[len("tpx.") :].replace("/", "-") not in schemas:
            faults.append(f"{source.name}: {title} has no schema")

validators = {
    schema["title"]: jsonschema.Draft202012Validator({**bundle, "$ref": f"#/$defs/{name}"})
    for name, schema in schemas.items()
    if schema["title"].startswith("tpx.")
}


def deepest(error):
    """The most specific cause of an error in one of several alternatives."""
    while error.context:
        error = max(error.context, key=lambda each: len(each.absolute_path))
    return error


def check_document(command, line):
    """The title of the schema of a printed line, which is valid, or None."""
    try:
        document = json.loads(line)
        title = document["schema"]
    except (ValueError, KeyError, TypeError):
        faults.append(f"tpx {command}: prints no document: {line[:200]}")
        return None, {}
    if title not in validators:
        faults.append(f"tpx {command}: {title} has no schema")
        return None, {}
    for error in validators[title].iter_errors(document):
        error = deepest(error)
        where = "/".join(map(str, error.absolute_path))
        faults.append(f"tpx {command}: {title}: {where}: {error.message[:300]}")
    return title, document


seen, statuses, count = set(), set(), 0
for file in sorted(printed_folder.iterdir()):
    if file.suffix:
        continue
    recorded = file.with_suffix(".status")
    text = recorded.read_text() if recorded.exists() else ""
    if not text:  # mpirun killed this rank before or while it wrote the status
        continue
    command = file.with_suffix(".command").read_text().strip()
    status = int(text)
    documents = [check_document(command, line) for line in file.read_text().splitlines()]
    count += len(documents)
    seen |= {title for title, _ in documents}
    errors = [document["error"] for title, document in documents if title == "tpx.error/1"]
    if status in (0, 3) and not errors:
        if len(documents) != 1:
            faults.append(f"tpx {command}: prints {len(documents)} documents")
    elif [error["exit_status"] for error in errors] != [status] or documents[-1][0] != "tpx.error/1":
        faults.append(f"tpx {command}: exits with {status}, but prints {errors}")
    statuses.add(status)

for status in {0, 1, 2, 3, 4, 75, 130} - statuses:
    faults.append(f"no command exited with {status}")
for title in sorted(set(validators) - seen - {"tpx.data/1", "tpx.log/1"}):
    faults.append(f"{title}: no command printed one")
for fault in sorted(set(faults)):
    print(fault)
print(f"{count} documents with {len(seen)} schemas; exit statuses {sorted(statuses)}; {len(set(faults))} faults")
sys.exit(bool(faults))
