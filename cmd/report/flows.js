// SPDX-License-Identifier: Apache-2.0
// What goes from host to host: ribbons while the hosts are few, then a matrix.
"use strict";

const flows = data.flows;
const fromStorage = flows.filter((flow) => flow.from === null);
const mostRibbonHosts = 16;

const ascending = (a, b) => a - b;
const unique = (list) => [...new Set(list)].sort(ascending);

// The hosts that send and those that receive; storage, which is null, first.
const senders = [...(fromStorage.length > 0 ? [null] : []), ...unique(flows.map((flow) => flow.from).filter((host) => host !== null))];
const receivers = unique(flows.map((flow) => flow.to));

const aboutFlow = (index) => [
    line(element("strong", {}, hostName(flows[index].from), " → ", hostName(flows[index].to))),
    line(bytes(`/flows/${index}/bytes`)),
];

// The nodes of one column from top to bottom: {host, y, height, next}, `next` is where the next ribbon starts.
function column(list, key, scale, gap) {
    let y = 0;
    return list.map((host) => {
        const total = sum(flows.filter((flow) => flow[key] === host).map((flow) => flow.bytes));
        const node = {host, total, y, height: Math.max(2, total * scale), next: y};
        y += Math.max(node.height + gap, 30);
        return node;
    });
}

const columnHeight = (nodes) => nodes.at(-1).y + nodes.at(-1).height;

function ribbonPath(left, right, y, to, thickness) {
    const middle = (left + right) / 2;
    return `M${left} ${y}C${middle} ${y} ${middle} ${to} ${right} ${to}v${thickness}` +
        `C${middle} ${to + thickness} ${middle} ${y + thickness} ${left} ${y + thickness}z`;
}

function ribbons(width) {
    const longest = largest([...senders, ...receivers].map((host) => hostName(host).length));
    const room = Math.min(24 + 7 * longest, Math.max(84, width * 0.22));
    const [left, right, thick, gap] = [Math.max(84, room), width - Math.max(84, room), 7, 16];
    const total = sum(flows.map((flow) => flow.bytes));
    const rows = Math.max(senders.length, receivers.length);
    const scale = Math.max(110, 34 * rows) / Math.max(1, total);
    const [from, to] = [column(senders, "from", scale, gap), column(receivers, "to", scale, gap)];
    const height = Math.max(columnHeight(from), columnHeight(to));
    const shift = (nodes) => nodes.forEach((node, k, all) => {
        if (k === 0) all.offset = (height - columnHeight(all)) / 2;
        node.y += all.offset;
        node.next += all.offset;
    });
    [from, to].forEach(shift);
    const nodeOf = (nodes, host) => nodes.find((node) => node.host === host);
    const order = flows.map((flow, index) => index).sort((a, b) =>
        senders.indexOf(flows[a].from) - senders.indexOf(flows[b].from) || flows[a].to - flows[b].to);
    const paths = order.map((index) => {
        const flow = flows[index];
        const [source, target] = [nodeOf(from, flow.from), nodeOf(to, flow.to)];
        const thickness = Math.max(1, flow.bytes * scale);
        const path = drawn("path", {class: `ribbon ${flow.from === null ? "storage" : "other_host"}`, "data-flow": index,
            d: ribbonPath(left + thick, right - thick, source.next, target.next, thickness)});
        source.next += flow.bytes * scale;
        target.next += flow.bytes * scale;
        return path;
    });
    const fits = Math.floor((left - 10) / 7);
    const label = (node, x, anchor) => [
        drawn("text", {x, y: node.y + node.height / 2 - 2, "text-anchor": anchor, class: "strong"}, shortened(hostName(node.host), fits)),
        drawn("text", {x, y: node.y + node.height / 2 + 12, "text-anchor": anchor, class: "muted"}, sizeText(node.total)),
    ];
    const nodes = [...from.map((node) => [node, left, left - 10, "end"]), ...to.map((node) => [node, right - thick, right + 10, "start"])]
        .map(([node, x, labelled, anchor]) => [
            drawn("rect", {class: `node ${node.host === null ? "storage" : "other_host"}`, x, y: node.y, width: thick, height: node.height}),
            label(node, labelled, anchor)]);
    const heads = [drawn("text", {class: "muted", x: left + thick, y: -24, "text-anchor": "end"}, "senders"), drawn("text", {class: "muted", x: right - thick, y: -24}, "receivers")];
    const picture = drawn("svg", {viewBox: `0 -38 ${width} ${height + 52}`, width, height: height + 52, "aria-hidden": "true"}, heads, paths, nodes);
    const figure = element("div", {role: "group", "aria-label":
        `${plural(flows.length, "flow")} between hosts. The arrow keys go from flow to flow.`}, picture);
    const mark = (chosen) => {
        picture.classList.toggle("choosing", chosen !== undefined);
        for (const path of paths) path.classList.toggle("chosen", chosen?.(flows[path.dataset.flow]) ?? false);
    };
    marked.listen("flows", (host) => mark(host === undefined ? undefined : (flow) => flow.from === host || flow.to === host));
    explore(figure, {
        count: order.length,
        find(event) {
            const index = event.target.closest?.(".ribbon")?.dataset.flow;
            return index === undefined ? undefined : order.indexOf(Number(index));
        },
        show(item) {
            if (item === undefined) return mark(undefined);
            const index = order[item];
            mark((flow) => flow === flows[index]);
            return {content: aboutFlow(index), box: () => paths[item].getBoundingClientRect()};
        },
    });
    return figure;
}

// Sums of flows between runs of `by` hosts: "row,column" -> {from, to, bytes, flows}.
function binned(by) {
    const bins = new Map();
    flows.forEach((flow, index) => {
        const [from, to] = [flow.from === null ? -1 : Math.floor(flow.from / by), Math.floor(flow.to / by)];
        const key = `${from},${to}`;
        if (!bins.has(key)) bins.set(key, {from, to, bytes: 0, flows: []});
        const bin = bins.get(key);
        bin.bytes += flow.bytes;
        bin.flows.push(index);
    });
    return [...bins.values()].sort((a, b) => a.from - b.from || a.to - b.to);
}

function binNames(bin, by) {
    if (bin < 0) return "shared storage";
    const [first, last] = [bin * by, Math.min(hosts.length, (bin + 1) * by) - 1];
    return first === last ? hostName(first) : `${hostName(first)} … ${hostName(last)}`;
}

const tints = 8;

// Senders from top to bottom, receivers from left to right.
function matrix(width) {
    const [left, top] = [Math.min(110, Math.max(56, width * 0.14)), 26];
    const room = Math.min(width - left - 1, 760);
    const by = Math.max(1, Math.ceil(hosts.length / Math.max(16, Math.floor(room / 5))));
    const lines = Math.ceil(hosts.length / by);
    const cell = Math.min(24, room / lines);
    const bins = binned(by);
    const first = bins[0].from < 0 ? -1 : 0;
    const [least, most] = [Math.min(...bins.map((bin) => bin.bytes)), Math.max(...bins.map((bin) => bin.bytes))];
    const tint = (amount) => (most === least ? tints - 1 : Math.floor((Math.log(amount / least) / Math.log(most / least)) * (tints - 0.001)));
    const inset = cell >= 6 ? 0.5 : 0;
    const corner = (bin) => [left + bin.to * cell, top + (bin.from - first) * cell];
    const paths = Array.from({length: tints}, () => "");
    for (const bin of bins) {
        const [x, y] = corner(bin).map((value) => (value + inset).toFixed(2));
        const size = (cell - 2 * inset).toFixed(2);
        paths[tint(bin.bytes)] += `M${x} ${y}h${size}v${size}h-${size}z`;
    }
    const side = lines * cell;
    const height = top + side - first * cell;
    const every = Math.ceil(lines / Math.max(2, Math.floor(side / 90)));
    const ticks = Array.from({length: Math.ceil(lines / every)}, (unused, k) => k * every);
    const fits = Math.floor(left / 6.4);
    const cursor = drawn("rect", {class: "cursor", visibility: "hidden", width: cell + 2, height: cell + 2});
    const picture = drawn("svg", {viewBox: `0 0 ${width} ${height + 4}`, width, height: height + 4, "aria-hidden": "true"},
        drawn("rect", {class: "axis", x: left - 0.5, y: top - 0.5, width: side + 1, height: height - top + 1}),
        ticks.map((tick) => [
            drawn("text", {class: "muted", x: left - 8, y: top + (tick - first + 0.5) * cell + 4, "text-anchor": "end"}, shortened(hostName(tick * by), fits)),
            drawn("text", {class: "muted", x: left + (tick + 0.5) * cell, y: top - 8, "text-anchor": tick === 0 ? "start" : "middle"}, shortened(hostName(tick * by), 11)),
        ]),
        first < 0 ? drawn("text", {class: "muted", x: left - 8, y: top + cell / 2 + 4, "text-anchor": "end"}, "storage") : null,
        paths.map((d, index) => drawn("path", {d, class: `tint tint${index}`})), cursor);
    const figure = element("div", {role: "group", "aria-label":
        `Matrix of ${plural(bins.length, "flow")}: senders from top to bottom, receivers from left to right. The arrow keys go from flow to flow.`}, picture);
    const numbers = new Map(bins.map((bin, index) => [`${bin.from},${bin.to}`, index]));
    explore(figure, {
        count: bins.length,
        find(event) {
            const box = picture.getBoundingClientRect();
            const scale = width / box.width;
            const [x, y] = [(event.clientX - box.left) * scale - left, (event.clientY - box.top) * scale - top];
            return numbers.get(`${Math.floor(y / cell) + first},${Math.floor(x / cell)}`);
        },
        show(item) {
            cursor.setAttribute("visibility", item === undefined ? "hidden" : "visible");
            if (item === undefined) return marked.set(undefined);
            const bin = bins[item];
            const [x, y] = corner(bin);
            cursor.setAttribute("x", x - 1);
            cursor.setAttribute("y", y - 1);
            if (by === 1) marked.set(bin.to);
            const content = bin.flows.length === 1 ? aboutFlow(bin.flows[0]) : [
                line(element("strong", {}, binNames(bin.from, by), " → ", binNames(bin.to, by))),
                line(derived(bin.bytes), ` in ${plural(bin.flows.length, "flow")}`)];
            return {content, box: () => cursor.getBoundingClientRect()};
        },
    });
    const legend = element("p", {class: "tints small muted"}, derived(least),
        Array.from({length: tints}, (unused, index) => element("span", {class: `tint-swatch tint${index}`})), derived(most),
        by > 1 ? ` a cell; a cell is ${countText(by)} × ${countText(by)} hosts` : " a flow");
    return element("div", {}, figure, legend);
}

function showFlows() {
    if (flows.length === 0) return byId("flows").remove();
    const few = senders.length <= mostRibbonHosts && receivers.length <= mostRibbonHosts;
    const sending = senders.filter((host) => host !== null).length;
    const parts = sending > 0 ? [`${plural(sending, "host")} ${verb(sending, "send")} to others, ${plural(receivers.length, "host")} ${verb(receivers.length, "receive")}`] : [];
    if (fromStorage.length > 0) parts.push("what no host holds any more comes from shared storage");
    put("flows-words", `${parts.join("; ")}. A host may send on what it has received. `);
    if (data.flows_left_out)
        byId("flows-words").append("The page has the largest flows; ", count("/flows_left_out/flows"), " smaller ones with ",
            bytes("/flows_left_out/bytes"), " together are left out.");
    put("flows-caption", few ? null : "A row is a sender, a column a receiver; the stronger the colour, the more. ", element("span", {class: "on-screen"}, "The same flows are listed below, under All numbers."));
    drawToWidth(byId("flows-figure"), few ? ribbons : matrix);
}
