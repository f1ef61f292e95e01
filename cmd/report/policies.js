// SPDX-License-Identifier: Apache-2.0
// What the pages of simulations share: the line of each policy in charts, and columns of tables.
"use strict";

const dashes = ["", "7 3", "2 3", "9 3 2 3", "1 5", "12 4"];
const strokes = ["var(--accent)", "var(--other-host)", "var(--good)", "var(--storage)", "var(--muted)", "var(--same-host)"];
const style = (index) => `stroke:${strokes[index % 6]};stroke-dasharray:${dashes[Math.floor(index / 6 + index) % 6]}`;
const share = (value) => `${(100 * value).toFixed(2)} %`;
const shareNumber = (pointer) =>
    element("span", {class: "number", "data-at": pointer, "data-value": at(pointer), "data-unit": "share"}, share(at(pointer)));

// The items of the key of a chart with a line for each policy.
const policyKey = (policies) => policies.map((policy, index) => element("li", {},
    drawn("svg", {width: 28, height: 8, "aria-hidden": "true"},
        drawn("line", {x1: 0, x2: 28, y1: 4, y2: 4, class: "curve", style: style(index)})), name(policy)));

// Columns of a table of results; `pointer(row, key)` refers to a number in the data.
function resultColumns(rows, pointer) {
    const column = (title, key, show) =>
        ({title, numeric: true, value: (row) => at(pointer(row, key)), cell: (row) => show(pointer(row, key))});
    const time = (title, key) => column(title, key, timeColumn(rows.map((row) => pointer(row, key))));
    const plain = (title, key, text) => column(title, key, (place) => text(at(place)));
    const tally = (title, key) => column(title, key, count);
    const part = (title, key) => column(title, key, shareNumber);
    return {
        tally, part,
        times: [time("mean", "mean_jct"), time("median", "median_jct"), time("99th percentile", "p99_jct"),
            time("mean wait", "mean_queueing"), time("makespan", "makespan")],
        changes: [tally("resizes", "changes"), tally("preemptions", "stops"),
            plain("lost GPU-hours", "lost_gpu_hours", (hours) => hours.toPrecision(4)),
            plain("fairness", "fairness", (value) => value.toFixed(3))],
    };
}
