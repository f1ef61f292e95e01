# SPDX-License-Identifier: Apache-2.0
"""Updates RESULTS.md: it has one section for each bench, which the next run replaces."""
from pathlib import Path

FILE = Path(__file__).resolve().parent / "RESULTS.md"
HEAD = "# Results\n\nThe last measurements of the programs in this folder with `--write`; each section names its machine.\n"


def put(title, text):
    """Replaces, or appends, the section `title`."""
    old = FILE.read_text() if FILE.exists() else HEAD
    parts = old.split("\n## ")
    kept = [part for part in parts[1:] if not part.startswith(title + "\n")]
    FILE.write_text("\n## ".join([parts[0].rstrip() + "\n", *kept, f"{title}\n\n{text}\n"]))
