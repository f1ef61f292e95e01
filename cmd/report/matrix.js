// SPDX-License-Identifier: Apache-2.0
// Flows between many hosts as a matrix: senders from top to bottom, receivers from left to right.
"use strict";

const tints = 8;

// Sums of flows between groups of `by` consecutive hosts, by sender, then receiver: {from, to, bytes, flows}; storage is
// group -1.
function binned(by) {
    const bins = new Map();
    flows.forEach((flow, index) => {
        const from = flow.from === null ? -1 : Math.floor(flow.from / by);
        const to = Math.floor(flow.to / by);
        const key = `${from},${to}`;
        if (!bins.has(key)) bins.set(key, {from, to, bytes: 0, flows: []});
        const bin = bins.get(key);
        bin.bytes += flow.bytes;
        bin.flows.push(index);
    });
    return [...bins.values()].sort((a, b) => a.from - b.from || a.to - b.to);
}

function binName(bin, by) {
    if (bin < 0) return "shared storage";
    const [first, last] = [bin * by, Math.min(hosts.length, (bin + 1) * by) - 1];
    return first === last ? hostName(first) : `${hostName(first)} … ${hostName(last)}`;
}

// The geometry in pixels. If storage sends, its row is above the others.
function matrixPlan(width) {
    const [left, top] = [Math.min(110, Math.max(56, width * 0.14)), 26];
    const room = Math.min(width - left - 1, 760);
    const by = Math.ceil(hosts.length / Math.max(16, Math.floor(room / 5)));
    const lines = Math.ceil(hosts.length / by);
    const cell = Math.min(24, room / lines);
    const first = senders.includes(null) ? -1 : 0;
    return {left, top, by, lines, cell, first, side: lines * cell, height: top + (lines - first) * cell,
        corner: (bin) => [left + bin.to * cell, top + (bin.from - first) * cell]};
}

// One path for each tint; tints depend on the square root of the bytes, so that small flows are visible beside large
// ones.
function matrixPaths(bins, {cell, corner}) {
    const most = largest(bins.map((bin) => bin.bytes));
    const inset = cell >= 6 ? 0.5 : 0;
    const size = (cell - 2 * inset).toFixed(2);
    const paths = Array.from({length: tints}, () => "");
    for (const bin of bins) {
        const [x, y] = corner(bin).map((value) => (value + inset).toFixed(2));
        paths[Math.floor(Math.sqrt(bin.bytes / most) * (tints - 0.001))] += `M${x} ${y}h${size}v${size}h-${size}z`;
    }
    const legend = element("p", {class: "tints small muted"}, derived(0),
        paths.map((unused, index) => element("span", {class: `tint-swatch tint${index}`})), derived(most));
    return [paths.map((d, index) => drawn("path", {d, class: `tint tint${index}`})), legend];
}

function matrixLabels({left, top, by, lines, cell, first, side, height}) {
    const every = Math.ceil(lines / Math.max(2, Math.floor(side / 90)));
    const ticks = Array.from({length: Math.ceil(lines / every)}, (unused, k) => k * every);
    const fits = Math.floor(left / 6.4);
    const text = (x, y, anchor, words) => drawn("text", {class: "muted", x, y, "text-anchor": anchor}, words);
    const row = (bin, words) => text(left - 8, top + (bin - first + 0.5) * cell + 4, "end", words);
    const column = (bin, words) => text(left + (bin + 0.5) * cell, top - 8, bin === 0 ? "start" : "middle", words);
    const nameOf = (bin, length) => shortened(hostName(bin * by), length);
    return [
        drawn("rect", {class: "axis", x: left - 0.5, y: top - 0.5, width: side + 1, height: height - top + 1}),
        ticks.map((bin) => [row(bin, nameOf(bin, fits)), column(bin, nameOf(bin, 11))]),
        first < 0 ? row(-1, "storage") : null,
    ];
}

function aboutBin(bin, by) {
    if (bin.flows.length === 1) return aboutFlow(bin.flows[0]);
    return [
        line(element("strong", {}, binName(bin.from, by), " → ", binName(bin.to, by))),
        line(derived(bin.bytes), ` in ${plural(bin.flows.length, "flow")}`),
    ];
}

function exploreMatrix(figure, picture, cursor, bins, {left, top, by, cell, first, corner}) {
    const numbers = new Map(bins.map((bin, index) => [`${bin.from},${bin.to}`, index]));
    explore(figure, {
        count: bins.length,
        find(event) {
            const [x, y] = pointIn(picture, event);
            return numbers.get(`${Math.floor((y - top) / cell) + first},${Math.floor((x - left) / cell)}`);
        },
        show(item) {
            place(cursor, item === undefined ? undefined : corner(bins[item]), 1);
            if (item === undefined) return marked.set(undefined);
            if (by === 1) marked.set(bins[item].to);
            return {content: aboutBin(bins[item], by), box: () => cursor.getBoundingClientRect()};
        },
    });
}

function matrix(width) {
    const plan = matrixPlan(width);
    const bins = binned(plan.by);
    const [paths, legend] = matrixPaths(bins, plan);
    const cursor = frameOf(plan.cell + 2, plan.cell + 2, "cursor");
    const picture = pictureOf(width, plan.height + 4, matrixLabels(plan), paths, cursor);
    const figure = figureOf(`Matrix of ${plural(bins.length, "flow")}: senders from top to bottom, ` +
        "receivers from left to right. The arrow keys go from flow to flow.", picture);
    exploreMatrix(figure, picture, cursor, bins, plan);
    legend.append(plan.by > 1 ? ` per cell of ${plan.by} × ${plan.by} hosts` : " per flow");
    return element("div", {}, figure, legend);
}
