// SPDX-License-Identifier: Apache-2.0
// The results of a trace for each value of an option.
"use strict";

const {points} = data;
const names = points[0].policies.map(({policy}) => policy);

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
    put("key", policyKey(names));
    put("curves", measures.map((measure) => {
        const box = element("div", {class: "curves"});
        queueMicrotask(() => drawToWidth(box, (width) => drawCurves(measure, width)));
        return element("div", {class: "series"}, element("h3", {}, measure.title), figureOf(measure.title, box));
    }));
}

function showNumbers() {
    const rows = points.flatMap(({policies}, point) => policies.map((policy, index) => ({point, index})));
    const pointer = ({point, index}, key) => `/points/${point}/policies/${index}/${key}`;
    const {part, times, changes} = resultColumns(rows, pointer);
    put("numbers", table({caption: "By value and policy", rows, columns: [
        {title: data.key, cell: ({point}) => name(points[point].value)},
        {title: "policy", cell: ({index}) => name(names[index])},
        ...times, part("training", "trained"), ...changes]}));
}

put("name", name(data.trace));
put("words", `${plural(points.length, "value")} of ${shown(data.key)}`);
put("options", "Options: ", data.options.map(([option, value], index) =>
    [index > 0 ? " " : "", name(value === "" ? option : `${option} ${value}`)]));
put("curves-words", `The values of ${shown(data.key)} are evenly spaced.`);
showCurves();
showNumbers();
queueMicrotask(() => queueMicrotask(() => { document.documentElement.dataset.ready = "true"; }));
