# SPDX-License-Identifier: Apache-2.0
"""hardware.py TPX: checks pages of measured hardware in a real browser: no script fails, there are no network requests,
they fit every width in both color schemes, each number shown is the one that --json prints, and every link is in the
map."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import measures
from browser import Page, find_browser
from texts import TEXTS

DATA = Path(__file__).resolve().parents[2] / "testdata/profile/hardware.toml"
HOSTS = 200
SLOW = (17, 133)

CELLS = "document.querySelectorAll('#map .rate').length"
MARKED = "document.querySelectorAll('#map .slow-link').length"
PEERS = "document.querySelectorAll('#peers .rate').length"
# The text for the first link when it is reached with the keyboard.
FIRST = """(() => {
    const figure = document.querySelector("#map [role=group]");
    figure.focus();
    figure.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
    return document.getElementById("tip").innerText;
})()"""


def many_hosts(path):
    """A file with so many hosts that they share cells, and with one slow link."""
    def cell(a, b):
        return "[]" if a == b else "[30000000, 0.01]" if (a, b) == SLOW else "[119000000, 0.01]"

    rows = (f"[{', '.join(cell(a, b) for b in range(HOSTS))}]" for a in range(HOSTS))
    path.write_text(f'[[hosts]]\nname = "n[000-{HOSTS - 1}]"\nnic = 119000000\n\n[measured]\nlinks = [\n'
                    + ",\n".join(rows) + "\n]\n")
    return path


def open_page(page, path, name):
    faults = page.draw(path, name)
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        for width in (1280, 768, 390, 320):
            page.resize(width, 900)
            page.settle()
            if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
                faults.append(f"{name}: it is too wide for {width} pixels")
    page.prefer("light")
    page.resize(1280, 900)
    page.settle()
    page.settle()
    page.evaluate(measures.UNFOLD)
    faults += [f"{name}: {fault}" for fault in page.evaluate(measures.STRUCTURE)]
    faults += [f"{name}: nothing names {node}" for node in page.evaluate(measures.UNNAMED)]
    return faults


def value_at(printed, pointer):
    value = printed
    for step in pointer.split("/")[1:]:
        value = value[int(step) if isinstance(value, list) else step]
    return value


def check_numbers(page, printed, name):
    shown = page.evaluate(measures.NUMBERS)
    faults = [f"{name}: {pointer} is {value_at(printed, pointer)}, the page shows {text}"
              for pointer, value, unit, text in shown
              if float(value) != value_at(printed, pointer) or text != TEXTS[unit](value_at(printed, pointer))]
    for host in range(len(printed["hosts"])):
        for key in ("memory", "disk_read", "nic", "disk_both"):
            pointer = f"/hosts/{host}/{key}/median"
            if host < 100 and value_at(printed, pointer) > 0 and pointer not in {each[0] for each in shown}:
                faults.append(f"{name}: {pointer} is not shown")
    return faults


def run(tpx, *words):
    done = subprocess.run([tpx, "profile", "hardware", *words, "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def expect(page, script, wanted, what):
    found = page.evaluate(script)
    return [] if found == wanted else [f"{what}: {found} in place of {wanted}"]


def check_small(tpx, page, folder):
    html, old = folder / "small.html", folder / "old.toml"
    old.write_text(DATA.read_text().replace("[1500000000, ", "[3900000000, "))
    printed = run(tpx, "--show", DATA, "--compare", old, "--html", html)
    faults = open_page(page, html, "small") + check_numbers(page, printed, "small")
    faults += expect(page, CELLS, 12, "links") + expect(page, MARKED, 1, "slow links") + expect(page, PEERS, 8, "GPU links")
    faults += expect(page, "document.querySelectorAll('#slower tbody tr').length", len(printed["degraded"]), "slower")
    tip = page.evaluate(FIRST)
    if "n0 → n1" not in tip or "120 MB/s" not in tip:
        faults.append(f"the keyboard shows {tip!r}")
    return faults


def check_large(tpx, page, folder):
    html = folder / "large.html"
    printed = run(tpx, "--show", many_hosts(folder / "many.toml"), "--html", html)
    faults = open_page(page, html, "large") + check_numbers(page, printed, "large")
    faults += expect(page, MARKED, 1, "slow links among many")
    cells = page.evaluate(CELLS)
    if not 1000 < cells < 10000:
        faults.append(f"{cells} cells for {HOSTS} hosts")
    return faults


def main():
    if not find_browser():
        print("skipped: Chromium is missing")
        return 77
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        faults = check_small(sys.argv[1], page, Path(folder)) + check_large(sys.argv[1], page, Path(folder))
    print("\n".join(faults[:40]))
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
