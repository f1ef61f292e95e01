// SPDX-License-Identifier: Apache-2.0
// The results of a trace for each value of an option.
"use strict";

const {points} = data;
const names = points[0].policies.map(({policy}) => policy);
const dashes = ["", "7 3", "2 3", "9 3 2 3", "1 5", "12 4"];
const strokes = ["var(--accent)", "var(--other-host)", "var(--good)", "var(--storage)", "var(--muted)", "var(--same-host)"];
const style = (index) => `stroke:${strokes[index % 6]};stroke-dasharray:${dashes[Math.floor(index / 6 + index) % 6]}`;
const share = (value) => `${(100 * value).toFixed(2)} %`;
const shareNumber = (pointer) =>
    element("span", {class: "number", "data-at": pointer, "data-value": at(pointer), "data-unit": "share"}, share(at(pointer)));

const measures = [
    {key: "mean_jct", title: "Mean job completion time", text: timeText},
    {key: "p99_jct", title: "99th percentile of job completion times", text: timeText},
    {key: "makespan", title: "Makespan", text: timeText},
    {key: "trained", title: "Share of GPU time in training", text: share},
];
const frame = {left: 64, right: 24, top: 30, bottom: 46};

// The marks of the vertical axis as [value, text], and its title.
function verticalAxis(key, most) {
    const [size, unit] = key === "trained" ? [0.01, "%"] : axisUnit(most);
    return {title: unit, marks: roundLevels(most / size).map((level) => [level * size, String(level)])};
}

// One line for each policy over the values, which are evenly spaced.
function drawCurves({key, text}, width) {
    const height = 240;
    const largestValue = Math.max(1e-9, largest(points.flatMap(({policies}) => policies.map((policy) => policy[key]))));
    const {title, marks} = verticalAxis(key, largestValue);
    const most = marks.at(-1)[0];
    const inner = width - frame.left - frame.right;
    const x = (index) => frame.left + (points.length === 1 ? inner / 2 : (inner * index) / (points.length - 1));
    const y = (value) => frame.top + (height - frame.top - frame.bottom) * (1 - value / most);
    const levels = marks.map(([value, words]) => [
        drawn("line", {class: "grid", x1: frame.left, x2: width - frame.right, y1: y(value), y2: y(value)}),
        drawn("text", {x: frame.left - 6, y: y(value) + 4, "text-anchor": "end"}, words),
    ]);
    const titles = [
        drawn("text", {x: frame.left - 6, y: frame.top - 14, "text-anchor": "end"}, title),
        drawn("text", {x: frame.left + inner / 2, y: height - 8, "text-anchor": "middle"}, shortened(shown(data.key), 40)),
    ];
    const every = Math.max(1, Math.ceil((points.length * 70) / Math.max(1, inner)));
    const values = points.map(({value}, index) => index % every === 0 &&
        drawn("text", {x: x(index), y: height - 27, "text-anchor": "middle"}, shortened(shown(value), 9)));
    const curves = names.map((policy, index) => [
        drawn("polyline", {class: "curve", style: style(index),
            points: points.map(({policies}, at) => [x(at), policies[index][key]]).filter(([, value]) => value !== null)
                .map(([left, value]) => `${left.toFixed(1)},${y(value).toFixed(1)}`).join(" ")}),
        points.map(({policies}, at) => policies[index][key] !== null && drawn("circle", {cx: x(at), cy: y(policies[index][key]), r: 3,
            style: `fill:${strokes[index % 6]}`}, drawn("title", {}, `${shown(policy)}: ${text(policies[index][key])}`))).filter(Boolean),
    ]);
    return pictureOf(width, height, titles, levels, values.filter(Boolean), curves);
}

function showCurves() {
    put("key", names.map((policy, index) => element("li", {},
        drawn("svg", {width: 28, height: 8, "aria-hidden": "true"},
            drawn("line", {x1: 0, x2: 28, y1: 4, y2: 4, class: "curve", style: style(index)})), name(policy))));
    put("curves", measures.map((measure) => {
        const box = element("div", {class: "curves"});
        queueMicrotask(() => drawToWidth(box, (width) => drawCurves(measure, width)));
        return element("div", {class: "series"}, element("h3", {}, measure.title), figureOf(measure.title, box));
    }));
}

function showNumbers() {
    const rows = points.flatMap(({policies}, point) => policies.map((policy, index) => ({point, index})));
    const pointer = ({point, index}, key) => `/points/${point}/policies/${index}/${key}`;
    const column = (title, key, show) =>
        ({title, numeric: true, value: (row) => at(pointer(row, key)), cell: (row) => show(pointer(row, key))});
    const plain = (title, key, text) => column(title, key, (place) => text(at(place)));
    const time = (title, key) => column(title, key, timeColumn(rows.map((row) => pointer(row, key))));
    put("numbers", table({caption: "By value and policy", rows, columns: [
        {title: data.key, cell: ({point}) => name(points[point].value)},
        {title: "policy", cell: ({index}) => name(names[index])},
        time("mean", "mean_jct"), time("median", "median_jct"), time("99th percentile", "p99_jct"),
        time("mean wait", "mean_queueing"), time("makespan", "makespan"), column("training", "trained", shareNumber),
        column("resizes", "changes", count), column("preemptions", "stops", count), plain("lost GPU-hours", "lost_gpu_hours", (hours) => hours.toPrecision(4)),
        plain("fairness", "fairness", (value) => value.toFixed(3))]}));
}

put("name", name(data.trace));
put("words", `${plural(points.length, "value")} of ${shown(data.key)}`);
put("options", "Options: ", data.options.map(([option, value], index) =>
    [index > 0 ? " " : "", name(value === "" ? option : `${option} ${value}`)]));
put("curves-words", `The values of ${shown(data.key)} are evenly spaced.`);
showCurves();
showNumbers();
queueMicrotask(() => queueMicrotask(() => { document.documentElement.dataset.ready = "true"; }));
