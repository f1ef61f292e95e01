# SPDX-License-Identifier: Apache-2.0
"""file_schemas.py example SCHEMAS: prints a hosts file with every key of hardware-file.json.
file_schemas.py check SCHEMAS TESTDATA: validates the files in the current folder and in TESTDATA."""
import copy
import csv
import json
import pathlib
import sys
import tomllib

import jsonschema
from schema_bundle import bundle_of, read_schemas

what, schemas_folder, *more = sys.argv[1:]
schemas = read_schemas(schemas_folder)
EXAMPLES = {"gpus": "2", "rails": "1", "iteration": "7", "lost": "false", "lost_devices": "[]", "spare": "false",
            "name": '"n[0-1]"', "switch": '"leaf"', "device_memory": '"80 GB"', "device_type": '"H100"'}


def example():
    """TOML of hosts; keys without an example are rates."""
    keys = schemas["hardware-file"]["properties"]["hosts"]["items"]["properties"]
    return "[[hosts]]\n" + "".join(f'{key} = {EXAMPLES.get(key, chr(34) + "25 GB/s" + chr(34))}\n' for key in keys)


bundle = bundle_of(schemas)
faults = []


def errors(name, document):
    validator = jsonschema.Draft202012Validator({**bundle, "$ref": f"#/$defs/{name}"})
    return [f"{'/'.join(map(str, each.absolute_path))}: {each.message[:200]}" for each in validator.iter_errors(document)]


def check(name, document, where):
    faults.extend(f"{where}: {name}: {error}" for error in errors(name, document))
    # An unknown key must be found, which shows that the schema applies.
    damaged = copy.deepcopy(document)
    part = next(iter(damaged.values())) if isinstance(damaged, dict) and name.endswith("-file") else damaged
    (part[0] if isinstance(part, list) else part)["tpyo"] = 1
    if not errors(name, damaged):
        faults.append(f"{where}: {name} allows an unknown key")


def toml(path):
    return tomllib.loads(pathlib.Path(path).read_text())


def rows(path):
    lines = [line for line in pathlib.Path(path).read_text().splitlines() if not line.startswith("#")]
    return [{key: value for key, value in row.items() if value != ""} for row in csv.DictReader(lines)]


def check_log():
    events = [json.loads(line) for line in pathlib.Path("log").read_text().splitlines()]
    for event in events:
        check("log-1", event, f"log: {event['event']}")
        for command in ("reshard", "migrate"):
            if command in event:
                document = {"schema": f"tpx.{command}/1", **event[command]}
                faults.extend(f"log: {event['event']}: {error}" for error in errors(f"{command}-1", document))
    names = {event["event"] for event in events}
    for name in {"start", "plan", "note", "leaving", "error", "result", "end"} - names:
        faults.append(f"log: no event {name}")
    return len(events)


if what == "example":
    print(example(), end="")
    sys.exit()
data = pathlib.Path(more[0])
check("hardware-file", toml("hosts.toml"), "hosts.toml")
check("hardware-file", toml("hardware.toml"), "hardware.toml")
check("hardware-file", toml(data / "profile/hardware.toml"), "profile/hardware.toml")
check("cluster-file", toml(data / "simulate/cluster.toml"), "simulate/cluster.toml")
check("models-file", toml(data / "simulate/models.toml"), "simulate/models.toml")
check("trace-file", rows(data / "simulate/trace.csv"), "simulate/trace.csv")
check("trace-file", rows("trace.csv"), "trace.csv")
count = check_log()
print("\n".join(faults))
print(f"7 files and {count} events, {len(faults)} faults")
sys.exit(bool(faults))
