# SPDX-License-Identifier: Apache-2.0
"""Keeps RESULTS.md: one section for each bench, replaced by its next run."""
from pathlib import Path

FILE = Path(__file__).resolve().parent / "RESULTS.md"
HEAD = "# Results\n\nWhat the programs of this folder last measured with `--write`; each section names its machine.\n"


def put(title, text):
    """Replaces, or appends, the section `title`."""
    old = FILE.read_text() if FILE.exists() else HEAD
    parts = old.split("\n## ")
    kept = [part for part in parts[1:] if not part.startswith(title + "\n")]
    FILE.write_text("\n## ".join([parts[0].rstrip() + "\n", *kept, f"{title}\n\n{text}\n"]))
