# SPDX-License-Identifier: Apache-2.0
"""json_keys.py PAGE FILE...: whether PAGE documents every key of the JSON objects in the files, below a heading that is
their schema. PAGE is mdoc; a key is documented by a word of .Cm. Prints the keys that are missing."""
import json
import re
import sys


def keys(value):
    if isinstance(value, list):
        for item in value:
            yield from keys(item)
    if isinstance(value, dict):
        for key, item in value.items():
            # The keys below these are data: names of roles, numbers of copies.
            yield key
            yield from keys(list(item.values()) if key in ("roles", "bytes_by_copies") else item)


page = open(sys.argv[1]).read()
missing = set()
for path in sys.argv[2:]:
    document = json.load(open(path))
    schema = document.pop("schema")
    section = re.search(rf"^\.Ss {re.escape(schema)}$(.*?)^\.S[sh] ", page, re.M | re.S)
    assert section, f"no section {schema}"
    lines = re.findall(r"^\.(?:It )?(?:Pq )?Cm (.*)$", section.group(1), re.M)
    documented = {word for line in lines for word in re.findall(r"\w+", line)}
    missing |= {f"{schema} {key}" for key in keys(document) if key not in documented}
for key in sorted(missing):
    print(key)
sys.exit(bool(missing))
