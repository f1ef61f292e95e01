# SPDX-License-Identifier: Apache-2.0
"""json_keys.py PAGE FILE...: whether PAGE documents every key of the JSON objects in the files, below a heading that is
their schema, or that of the inner object that has a schema of its own. PAGE is mdoc; a key is documented by a word of
.Cm. Prints the keys that are missing."""
import json
import re
import sys


def keys(value, schema):
    """Each key in `value`, with the schema that it belongs to."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item, schema)
    if isinstance(value, dict):
        if "schema" in value:
            schema = value["schema"]
        for key, item in value.items():
            # The keys below these are data: names of roles, numbers of copies.
            if key != "schema":
                yield schema, key
            yield from keys(list(item.values()) if key in ("roles", "bytes_by_copies") else item, schema)


def documented(schema):
    section = re.search(rf"^\.Ss {re.escape(schema)}$(.*?)^\.S[sh] ", page, re.M | re.S)
    assert section, f"no section {schema}"
    lines = re.findall(r"^\.(?:It )?(?:Pq )?Cm (.*)$", section.group(1), re.M)
    return {word for line in lines for word in re.findall(r"\w+", line)}


page = open(sys.argv[1]).read()
missing = set()
for path in sys.argv[2:]:
    missing |= {f"{schema} {key}" for schema, key in keys(json.load(open(path)), None) if key not in documented(schema)}
for key in sorted(missing):
    print(key)
sys.exit(bool(missing))
