// SPDX-License-Identifier: Apache-2.0
// The results of a trace under each policy.
"use strict";

const {policies} = data;

function showPolicies() {
    const rows = policies.map((policy, index) => index);
    const {tally, part, times, changes} = resultColumns(rows, (index, key) => `/policies/${index}/${key}`);
    const head = {title: "policy", cell: (index) => name(policies[index].policy)};
    put("policies", table({caption: "Times", rows, columns: [head, ...times,
        ...(policies.some(({unfinished}) => unfinished > 0) ? [tally("unfinished jobs", "unfinished")] : [])]}));
    const deadlines = {title: "deadlines met", numeric: true, value: (index) => policies[index].deadlines_kept,
        cell: (index) => `${countText(policies[index].deadlines_kept)} of ${countText(policies[index].deadlines)}`};
    put("gpus", table({caption: "GPUs", rows, columns: [head, part("allocated", "held"), part("running", "worked"),
        part("training", "trained"), ...changes,
        ...(policies.some((policy) => policy.deadlines > 0) ? [deadlines] : [])]}));
}

const frame = {left: 48, right: 12, top: 10, bottom: 44};

// The time axis below a chart.
function timeAxis(width, height, place, marks, title, text = roundTime) {
    const middle = (frame.left + width - frame.right) / 2;
    return [drawn("text", {x: middle, y: height - 8, "text-anchor": "middle"}, title), marks.map((value) => [
        drawn("line", {class: "grid", x1: place(value), x2: place(value), y1: frame.top, y2: height - frame.bottom}),
        drawn("text", {x: place(value), y: height - 26, "text-anchor": "middle"}, text(value)),
    ])];
}

// A round time in its largest unit: "90 s" is "1.5 min".
function roundTime(value) {
    const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => value >= size) ?? [1, "s"];
    return `${Number((value / size).toFixed(2))} ${unit}`;
}

// The share of jobs that are done within a time, on a logarithmic scale.
function drawTimes(width) {
    const height = 300;
    const all = policies.flatMap(({distribution}) => distribution).map((value) => Math.max(value, 1));
    const low = Math.log10(all.reduce((least, value) => Math.min(least, value), Infinity));
    const high = Math.max(low + 1e-6, Math.log10(largest(all)));
    const inner = width - frame.left - frame.right;
    const x = (value) => frame.left + (inner * (Math.log10(Math.max(value, 1)) - low)) / (high - low);
    const y = (part) => frame.top + (height - frame.top - frame.bottom) * (1 - part);
    const steps = [1, 10, 60, 600, 3600, 36000, 360000, 3600000].filter((value) => x(value) >= frame.left && x(value) <= width - 30);
    const marks = width < 500 ? steps.filter((value, index) => index % 2 === 0) : steps;
    const curves = policies.map(({distribution}, index) => {
        // A step at each time, as high as the share of jobs that take exactly that long.
        const points = distribution.flatMap((value, rank) => [rank, rank + 1].map((step) =>
            `${x(value).toFixed(1)},${y(step / distribution.length).toFixed(1)}`));
        return drawn("polyline", {class: "curve", style: style(index), points: points.join(" ")});
    });
    const levels = [0, 0.5, 1].map((part) => [
        drawn("line", {class: "grid", x1: frame.left, x2: width - frame.right, y1: y(part), y2: y(part)}),
        drawn("text", {x: frame.left - 6, y: y(part) + 4, "text-anchor": "end"}, `${100 * part} %`),
    ]);
    return pictureOf(width, height, timeAxis(width, height, x, marks, "job completion time"), levels, curves);
}

function showTimes() {
    const box = element("div");
    put("times", figureOf("Share of jobs done within a time", box), element("ul", {class: "key"}, policyKey(policies.map(({policy}) => policy))));
    drawToWidth(box, drawTimes);
    put("times-caption", "The time scale is logarithmic; jobs shorter than one second count as one second.");
}

const span = data.end - data.begin;

function timeMarks(width) {
    const least = span / Math.max(2, Math.floor(width / 110));
    const step = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 43200, 86400, 172800, 432000, 864000]
        .find((time) => time >= least) ?? Math.ceil(least / 864000) * 864000;
    const first = Math.ceil(data.begin / step);
    return Array.from({length: Math.floor(data.end / step) - first + 1}, (unused, index) => (first + index) * step);
}

// The axis of the time of day, whose marks have one unit.
function clockAxis(width, height, place) {
    const marks = timeMarks(width);
    const [size, unit] = axisUnit(marks.at(-1), marks.length > 1 ? marks[1] - marks[0] : marks[0]);
    return timeAxis(width, height, place, marks, `time, ${unit}`, (value) => String(Number((value / size).toFixed(3))));
}

const timeScale = (width) => (value) =>
    frame.left + ((width - frame.left - frame.right) * (value - data.begin)) / span;

function drawUsage(policy, width) {
    const height = 130;
    const {held, training} = policy.usage;
    const x = timeScale(width);
    const y = (gpus) => height - frame.bottom - ((height - frame.top - frame.bottom) * gpus) / data.gpus;
    const area = (values, kind) => {
        const step = span / values.length;
        const path = values.map((value, index) =>
            `V${y(value).toFixed(1)}H${x(data.begin + (index + 1) * step).toFixed(1)}`);
        return drawn("path", {class: kind, d: `M${x(data.begin).toFixed(1)} ${y(0)}${path.join("")}V${y(0)}Z`});
    };
    return pictureOf(width, height, clockAxis(width, height, x), area(held, "held"),
        area(training, "training"),
        [0, data.gpus].map((gpus) => drawn("text", {x: frame.left - 6, y: y(gpus) + 4, "text-anchor": "end"}, countText(gpus))));
}

function showUsage() {
    put("usage", policies.map((policy) => {
        const box = element("div");
        queueMicrotask(() => drawToWidth(box, (width) => drawUsage(policy, width)));
        return element("div", {class: "series"}, element("h3", {}, name(policy.policy)),
            figureOf(`GPUs over time under ${shown(policy.policy)}`, box));
    }));
}

// The slices of each host with the lanes, one per GPU, in which they are drawn. A job keeps its lanes if possible.
function lanesOf(policy) {
    const hosts = data.places.map(([, gpus]) => Array.from({length: gpus}, () => ({until: -Infinity, job: -1})));
    const boxes = [];
    for (const [job, begin, end, training, parts] of [...policy.slices].sort((a, b) => a[1] - b[1])) {
        for (const [host, gpus] of parts) {
            const free = hosts[host].map((lane, index) => ({lane, index})).filter(({lane}) => lane.until <= begin + 1e-9);
            free.sort((a, b) => (b.lane.job === job) - (a.lane.job === job) || a.index - b.index);
            let box;
            for (const {lane, index} of free.slice(0, gpus).sort((a, b) => a.index - b.index)) {
                lane.until = end;
                lane.job = job;
                if (box && box.index + box.lanes === index) ++box.lanes;
                else boxes.push(box = {job, begin, end, training, host, index, lanes: 1});
            }
        }
    }
    return boxes;
}

const colorOf = (job) => `hsl(${(job * 137.5) % 360} 45% 55%)`;

function drawHosts(policy, width) {
    const boxes = lanesOf(policy);
    const lane = Math.max(2, Math.min(9, Math.floor(600 / data.gpus)));
    const tops = [];
    let height = frame.top;
    for (const [, gpus] of data.places) {
        tops.push(height);
        height += gpus * lane + 4;
    }
    height += frame.bottom;
    const x = timeScale(width);
    const rects = boxes.map(({job, begin, end, training, host, index, lanes}) => drawn("rect", {
        x: x(begin).toFixed(1), width: Math.max(0.5, x(end) - x(begin)).toFixed(1),
        y: tops[host] + index * lane, height: lanes * lane - (lane > 3 ? 1 : 0),
        style: `fill:${colorOf(job)};opacity:${training ? 1 : 0.4}`,
    }, drawn("title", {}, shown(data.names[job]))));
    // The name of a job, if it fits.
    const titles = boxes.filter(({begin, end, job, lanes}) =>
        lanes * lane >= 12 && x(end) - x(begin) > 7 * shown(data.names[job]).length + 6)
        .map(({begin, job, host, index, lanes}) => drawn("text", {class: "job", x: x(begin) + 3,
            y: tops[host] + (index + lanes / 2) * lane + 4}, shown(data.names[job])));
    const labels = data.places.map(([host], index) =>
        drawn("text", {x: frame.left - 6, y: tops[index] + 10, "text-anchor": "end"}, shortened(shown(host), 6)));
    const picture = pictureOf(width, height, clockAxis(width, height, x), labels, rects, titles);
    return picture;
}

function showHosts() {
    const seen = policies.filter(({slices}) => slices.length > 0);
    const hidden = policies.length - seen.length;
    put("hosts-words", seen.length > 0 ? "A lane for each GPU, and a color for each job, which is paler while the job does not train. " : "",
        hidden > 0 ? `${hidden} of ${policies.length} policies have more slices than can be shown here; --timeline writes all.` : "");
    put("hosts", seen.map((policy) => {
        const box = element("div");
        queueMicrotask(() => drawToWidth(box, (width) => drawHosts(policy, width)));
        return element("div", {class: "series"}, element("h3", {}, name(policy.policy)),
            figureOf(`Jobs on hosts under ${shown(policy.policy)}`, box));
    }));
}

put("name", name(data.trace));
put("words", count("/jobs"), " jobs on ", count("/gpus"), " GPUs of ", count("/hosts"), " hosts");
if (data.options.length > 0)
    put("options", "Options: ", data.options.map(([option, value], index) =>
        [index > 0 ? " " : "", name(value === "" ? option : `${option} ${value}`)]));
showPolicies();
showTimes();
showUsage();
showHosts();
queueMicrotask(() => queueMicrotask(() => { document.documentElement.dataset.ready = "true"; }));
