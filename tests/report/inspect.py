# SPDX-License-Identifier: Apache-2.0
"""inspect.py TPX: checks the page of a checkpoint in a real browser: no script fails, there are no network requests, it
fits every width and paper, texts are readable in light and dark colors, and it shows the values that --json prints."""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import measures
from browser import Page, find_browser
from texts import TEXTS

DATA = Path(__file__).resolve().parents[2] / "testdata"
PAPER = 690  # pixels between the margins of A4
CELLS = "document.querySelectorAll('.strip rect').length"
REPLICAS = "document.querySelectorAll('.strip .replica').length"
FIRST = """(() => {
    const strip = document.querySelector('.strip');
    strip.scrollIntoView({block: 'center', behavior: 'instant'});
    const {left, top, height} = strip.getBoundingClientRect();
    return [left + 2, top + height / 2];
})()"""


def run(tpx, *words):
    done = subprocess.run([tpx, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tpx {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def look(page, path, name):
    faults = page.draw(path, name)
    for width in (1280, 768, 390, 320):
        page.resize(width, 900)
        page.settle()
        if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
            faults.append(f"{name}: it is too wide for {width} pixels")
    page.resize(PAPER, 900)
    page.prefer("dark", media="print")
    page.settle()
    if page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
        faults.append(f"{name}: it is too wide for paper")
    page.resize(1280, 900)
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        page.settle()
        faults += [f"{name}: contrast {contrast:.2f} of '{text}' in {scheme} colors"
                   for contrast, text in page.evaluate(measures.CONTRASTS)]
    page.prefer("light")
    faults += [f"{name}: {label} can have the focus, and has no name" for label in page.evaluate(measures.UNNAMED)]
    return faults + [f"{name}: {text}" for text in page.evaluate(measures.STRUCTURE)]


def compare(page, printed, name):
    """The page shows the numbers of the document as printed, and totals and files are complete."""
    shown = {pointer: (value, TEXTS[unit](int(value)), text) for pointer, value, unit, text in page.evaluate(measures.NUMBERS)
             if not pointer.startswith(("/rows", "/columns"))}
    faults = [f"{name}: {pointer} is shown as {text}" for pointer, (value, right, text) in shown.items() if right != text]
    for kind, keys in (("totals", ("tensors", "elements", "bytes")), ("files", ("bytes",))):
        for index, item in enumerate(printed[kind][:100]):
            for key in keys:
                value = shown.get(f"/{kind}/{index}/{key}", (None,))[0]
                if value is None or float(value) != item[key]:
                    faults.append(f"{name}: /{kind}/{index}/{key} is {item[key]}, the page shows {value}")
    return faults


def check(tpx, page, folder, checkpoint, name, ranks, replicas=0, holes=0, words=()):
    """`ranks`: the text that the first strip shows under the pointer begins with it."""
    path = folder / f"{name}.html"
    printed = json.loads(run(tpx, "inspect", checkpoint, "--html", path, "--tensors", "--json", *words))
    faults = look(page, path, name) + compare(page, printed, name)
    data = page.evaluate("({rows, columns})")
    missing = sum(row["missing"] for row in data["rows"])
    cells = sum(len(row["cells"]) for row in data["rows"][:100])
    if page.evaluate(CELLS) != cells or (page.evaluate(REPLICAS) > 0) != (replicas > 0):
        faults.append(f"{name}: {page.evaluate(CELLS)} cells in place of {cells}, {page.evaluate(REPLICAS)} of replicas")
    if printed["replicas"] < replicas or len(printed["holes"]) < holes or (missing > 0) != (holes > 0):
        faults.append(f"{name}: {printed['replicas']} replicas, {len(printed['holes'])} holes, {missing} bytes missing")
    page.point(*page.evaluate(FIRST))
    said = page.evaluate("document.getElementById('tip').innerText")
    if not said.startswith(ranks):
        faults.append(f"{name}: the pointer shows '{said}', not '{ranks}'")
    page.point(2, 2)
    page.paper(path.with_suffix(".pdf"))
    return faults


def main():
    if not find_browser():
        print("skipped: Chromium is missing")
        return 77
    tpx = sys.argv[1]
    with tempfile.TemporaryDirectory() as place, Page() as page:
        folder = Path(place)
        faults = check(tpx, page, folder, DATA / "llama-small/megatron-tp2pp2", "ranks", "rank 0")
        faults += check(tpx, page, folder, DATA / "llama-small/hf", "files", "model.safetensors")
        faults += check(tpx, page, folder, DATA / "deepspeed/universal-part", "holes", "", replicas=1, holes=1)
        run(tpx, "reshard", DATA / "llama-rope/dcp-fsdp2", folder / "replicated", "--to", "tp=2,dp=3", "--format", "megatron",
            "--config", DATA / "llama-rope/hf/config.json", "-q")
        faults += check(tpx, page, folder, folder / "replicated", "replicas", "", replicas=1)
        shutil.rmtree(folder / "replicated")
    print("\n".join(faults[:40]))
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
