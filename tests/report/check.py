# SPDX-License-Identifier: Apache-2.0
"""check.py PROGRAM [SAMPLE...]: checks the reports of plans in a real browser: no script fails, there are no network
requests, and the page shows the values of the data. PROGRAM is report_page, which makes pages from the plans of
samples.py, or tpx, which makes plans for checkpoints in testdata/."""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measures
from browser import Page, find_browser
from samples import SAMPLES, layout
from texts import TEXTS, rate_text, size_text, time_text

SKIPPED = 77
ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (1280, 768, 390, 320)
PAPER = 690  # pixels between the margins of A4
LARGEST_PAGE = 5_000_000

faults = []


def check(holds, what):
    if not holds:
        faults.append(what)


def value_at(plan, pointer):
    """The value at a JSON pointer."""
    value = plan
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        value = value[int(step) if isinstance(value, list) else step]
    return value


def pointers(plan, every):
    """Pointers to the numbers that the page must show; in long lists, those of `every` entry."""
    def inside(key, names):
        return [f"/{key}/{index}/{name}" for index in range(0, len(plan[key]), every) for name in names]

    def escaped(role):
        return role.replace("~", "~0").replace("/", "~1")

    travels = ["needed", "kept", "local", "same_host", "other_host"] + (["storage"] if plan["total"]["storage"] else [])
    found = [f"/total/{key}" for key in travels]
    found += [f"/roles/{escaped(role)}/{key}" for role in plan["roles"] for key in travels]
    found += inside("hosts", ["gpus", "nic_in", "nic_out", "disk_read", "disk_write", "copied"])
    found += inside("flows", ["bytes"])
    # Resources that do not limit the change, such as the disks of a change in memory, are not on the page.
    found += [f"/resources/{index}/{key}" for index, resource in enumerate(plan["resources"]) if resource["counts"]
              for key in ("seconds", "bytes", "rate")]
    found += [f"/{key}/{rank}" for key in ("old_bytes", "new_bytes") for rank in range(0, len(plan[key]), every)]
    found += ["/seconds", "/certificate/between_hosts", "/certificate/between_hosts_bound"]
    found += [f"/certificate/sending/{key}" for key in ("bytes", "seconds") if plan["certificate"]["sending"]["hosts"]]
    return found + [f"/{key}" for key in ("transfers", "rounds") if plan[key]]


def check_numbers(page, plan, name, every):
    shown = page.evaluate(measures.NUMBERS)
    for pointer, value, unit, text in shown:
        expected = value_at(plan, pointer)
        check(float(value) == float(expected), f"{name}: {pointer} is {expected}, the page has {value}")
        check(text == TEXTS[unit](expected), f"{name}: {pointer} is shown as {text}, it is {TEXTS[unit](expected)}")
    missing = set(pointers(plan, every)) - {pointer for pointer, *_ in shown}
    check(not missing, f"{name}: {len(missing)} numbers are not shown, such as {sorted(missing)[:3]}")


def check_look(page, name):
    """At every width and in both color schemes, everything fits and is readable."""
    for width in WIDTHS:
        page.resize(width, 900)
        page.settle()
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        check(overflow <= 0, f"{name}: at {width} pixels it is {overflow} too wide")
    page.resize(PAPER, 900)
    page.prefer("dark", media="print")
    page.settle()
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    check(overflow <= 0, f"{name}: on paper it is {overflow} pixels too wide")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    check(paper == "rgb(255, 255, 255)", f"{name}: paper is {paper}")
    page.resize(WIDTHS[0], 900)
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        page.settle()
        for contrast, text in page.evaluate(measures.CONTRASTS):
            check(False, f"{name}: contrast {contrast:.2f} of '{text}' in {scheme} colors")
    page.prefer("light")


def check_keys(page, name):
    """Everything that can be explored with the pointer can be explored with the keyboard, and has a label."""
    for label in page.evaluate(measures.UNNAMED):
        check(False, f"{name}: {label} can have the focus, and has no name")
    for figure in page.evaluate(measures.FIGURES):
        page.evaluate(f"explored[{figure}].focus()")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End"):
            page.press(key)
        said = page.evaluate("document.getElementById('live').textContent")
        check(any(sign.isdigit() for sign in said), f"{name}: figure {figure} says '{said}' to the arrow keys")
        page.press("Escape")
        check(page.evaluate("document.getElementById('tip').hidden"), f"{name}: Escape leaves figure {figure} marked")


def check_ranks(page, plan, name):
    """Each rank is drawn once, and the one under the pointer is named."""
    drawn = page.evaluate(measures.DRAWN)
    check(drawn == [len(plan["old_ranks"]), len(plan["new_ranks"])], f"{name}: {drawn} ranks are drawn")
    spot = page.evaluate(measures.SPOT)
    if not spot:
        return
    page.point(*spot)
    said = page.evaluate("document.getElementById('tip').innerText")
    seat = plan["new_ranks"].index([min(host for host, _ in plan["new_ranks"]), 0])
    right = f"rank {seat}\n" in said and size_text(plan["new_bytes"][seat]) in said
    check(right, f"{name}: '{said}' is said of rank {seat}")
    page.point(2, 2)


def check_plan(page, plan, path, name):
    large = len(plan["old_ranks"]) > 1024
    page.resize(WIDTHS[0], 900)
    page.faults.clear()
    started = time.monotonic()
    page.open(path)
    page.settle()
    seconds = time.monotonic() - started
    if page.evaluate("document.documentElement.dataset.ready") != "true":
        return faults.extend(f"{name}: {fault}" for fault in [*page.faults, "the page is not drawn"])
    check(seconds < 20, f"{name}: it took {seconds:.1f} s to draw")
    check(path.stat().st_size < LARGEST_PAGE, f"{name}: the page has {path.stat().st_size} bytes")
    check_ranks(page, plan, name)
    page.evaluate(measures.UNFOLD if large else measures.UNFOLD_ALL)
    page.settle()
    check_numbers(page, plan, name, every=10**9 if large else 1)
    for text in page.evaluate(measures.STRUCTURE):
        check(False, f"{name}: {text}")
    if not large:
        check_look(page, name)
    check_keys(page, name)
    check_controls(page, name)
    page.paper(path.with_suffix(".pdf"))
    for fault in page.faults:
        check(False, f"{name}: {fault}")


def check_texts(page):
    """The page formats numbers like tpx, also at the limits between two texts."""
    sizes = [0, 1, 999, 999.5, 1000, 9994999, 9995000, 2125000000, 2375000000, 12250000000, 12350000000, 10**15, 2**62,
             999499, 999500] + [int(1.37**k) for k in range(140)]
    times = [0, 1e-9, 4.625e-6, 0.00099949, 0.0009995, 0.99949, 0.9995, 1.125, 59.96, 119.4, 119.5, 3599.5]
    times += [7199.4, 7200] + [0.000001 * 1.7**k for k in range(60)]
    made = (("sizeText", sizes, size_text), ("rateText", sizes, rate_text), ("timeText", times, time_text))
    for script, values, text in made:
        made = page.evaluate(f"{json.dumps(values)}.map({script})")
        for value, said in zip(values, made):
            check(said == text(value), f"{script}({value}) is '{said}', not '{text(value)}'")


# Which part, stage and block of experts the ranks of a layout have, as megatron-core numbers them.
PLACES = [
    ("tp=2,cp=2,ep=2,dp=2,pp=2,etp=1", {"tp": "0101010101010101", "pp": "0000000011111111", "dp": "0000111100001111",
                                        "cp": "0011001100110011", "ep": "0101010101010101"}),
    ("tp=4,ep=4,dp=4,pp=2,etp=1", {"tp": "01230123012301230123012301230123", "pp": "00000000000000001111111111111111",
                                   "dp": "00001111222233330000111122223333", "ep": "01230123012301230123012301230123"}),
    ("tp=2,pp=2,dp=2,order=pp-tp-cp-ep-dp", {"pp": "01010101", "tp": "00110011", "dp": "00001111"}),
]


def check_places(page):
    for text, expected in PLACES:
        given = json.dumps(layout(text))
        made = page.evaluate(f"Array.from({{length: {given}.ranks}}, (unused, rank) => placeOf({given}, rank))")
        for axis, ranks in expected.items():
            found = "".join(str(place[axis]) for place in made)
            check(found == ranks, f"{text}: {axis} of ranks is {found}, not {ranks}")


def check_controls(page, name):
    """Colors can be chosen, and tables sorted."""
    for axis in page.evaluate("[...document.querySelectorAll('#color-by option')].map((option) => option.value)"):
        drawn = page.evaluate(measures.color_by(axis))
        there = page.evaluate("sides.map((side) => side.count)")
        check(drawn == there, f"{name}: colored by {axis}, {drawn} ranks of {there} are drawn")
    for way in ("descending", "ascending"):
        values = page.evaluate(measures.SORTED)
        right = sorted(values, reverse=way == "descending")
        check(values == right and values, f"{name}: hosts are not in {way} order of what they send")


def plans_of_samples(program, folder, names):
    for name in names or SAMPLES:
        plan = SAMPLES[name]()
        path = folder / f"{name}.html"
        with open(path, "wb") as file:
            subprocess.run([program], input=json.dumps(plan).encode(), stdout=file, check=True)
        yield name, plan, path


PLANS = {
    "stages": ["--model", "gpt3-6.7b", "--from", "tp=4,pp=2", "--to", "tp=4,pp=4", "--hosts", "4x4"],
    "tensors": ["--model", "gpt3-6.7b", "--from", "tp=4,pp=2", "--to", "tp=8,pp=2", "--hosts", "4x4"],
    "lost": ["--model", "llama3-70b", "--from", "tp=8,pp=4,dp=4", "--to", "tp=8,pp=4,dp=3", "--hosts", "16x8",
             "--lost", "host3"],
    "device": ["--model", "llama3-8b", "--from", "tp=4,dp=4", "--to", "tp=4,dp=3", "--hosts", "2x8", "--lost", "host1:2"],
    "experts": ["--model", "moe-1t", "--from", "tp=8,dp=1024,ep=64,etp=1,pp=2,first=30,zero=1",
                "--to", "tp=8,dp=768,ep=64,etp=1,pp=2,first=30,zero=1", "--hosts", "2048x8"],
    "checkpoint": ["testdata/llama-small/megatron-tp2pp2", "--to", "tp=4", "--hosts", "2x2"],
}


def plans_of_tpx(program, folder):
    for name, words in PLANS.items():
        path = folder / f"{name}.html"
        command = [program, "plan", *words, "--report", path, "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        check(done.returncode == 0, f"{name}: tpx plan: {done.stderr}")
        if done.returncode == 0:
            yield name, json.loads(done.stdout), path


def main():
    if not find_browser():
        print("skipped: Chromium is missing")
        return SKIPPED
    program, names = sys.argv[1], sys.argv[2:]
    own = Path(program).name == "tpx"
    with tempfile.TemporaryDirectory() as folder, Page() as page:
        made = plans_of_tpx(program, Path(folder)) if own else plans_of_samples(program, Path(folder), names)
        for name, plan, path in made:
            check_plan(page, plan, path, name)
        if not faults:
            check_texts(page)
            check_places(page)
    for fault in faults[:40]:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
