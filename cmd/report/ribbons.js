// SPDX-License-Identifier: Apache-2.0
// Flows between few hosts as ribbons from senders on the left to receivers on the right.
"use strict";

// The nodes of one column from top to bottom: {host, total, y, height, next}; `next` is where the next ribbon starts.
function ribbonNodes(list, key, scale) {
    const [gap, room] = [16, 30];
    let y = 0;
    return list.map((host) => {
        const total = sum(flows.filter((flow) => flow[key] === host).map((flow) => flow.bytes));
        const node = {host, total, y, height: Math.max(2, total * scale)};
        y += Math.max(node.height + gap, room);
        return node;
    });
}

const bottom = (nodes) => nodes.at(-1).y + nodes.at(-1).height;

// Moves `nodes` to the middle of `height`.
function center(nodes, height) {
    const shift = (height - bottom(nodes)) / 2;
    for (const node of nodes) {
        node.y += shift;
        node.next = node.y;
    }
}

function ribbonPath(left, right, y, to, thickness) {
    const middle = (left + right) / 2;
    return `M${left} ${y}C${middle} ${y} ${middle} ${to} ${right} ${to}v${thickness}` +
        `C${middle} ${to + thickness} ${middle} ${y + thickness} ${left} ${y + thickness}z`;
}

// One path for each flow in `order`, a list of indices of flows.
function ribbonPaths(order, from, to, left, right, scale) {
    const nodeOf = (nodes) => new Map(nodes.map((node) => [node.host, node]));
    const [sources, targets] = [nodeOf(from), nodeOf(to)];
    return order.map((index) => {
        const flow = flows[index];
        const [source, target] = [sources.get(flow.from), targets.get(flow.to)];
        const d = ribbonPath(left, right, source.next, target.next, Math.max(1, flow.bytes * scale));
        source.next += flow.bytes * scale;
        target.next += flow.bytes * scale;
        return drawn("path", {class: `ribbon ${flow.from === null ? "storage" : "other_host"}`, "data-flow": index, d});
    });
}

function ribbonLabels(nodes, x, outward, thick) {
    const anchor = outward < 0 ? "end" : "start";
    const edge = outward < 0 ? x : x + thick;
    const fits = Math.floor((Math.abs(outward) - 10) / 7);
    return nodes.map(({host, total, y, height}) => {
        const at = {x: edge + Math.sign(outward) * 10, "text-anchor": anchor};
        return [
            drawn("rect", {class: `node ${host === null ? "storage" : "other_host"}`, x, y, width: thick, height}),
            drawn("text", {...at, y: y + height / 2 - 2, class: "strong"}, shortened(hostName(host), fits)),
            drawn("text", {...at, y: y + height / 2 + 12, class: "muted"}, sizeText(total)),
        ];
    });
}

function exploreRibbons(figure, picture, order, paths) {
    const mark = (chosen) => {
        picture.classList.toggle("choosing", chosen !== undefined);
        for (const path of paths) path.classList.toggle("chosen", chosen?.(flows[path.dataset.flow]) ?? false);
    };
    const ofHost = (host) => (host === undefined ? undefined : (flow) => flow.from === host || flow.to === host);
    marked.listen("flows", (host) => mark(ofHost(host)));
    explore(figure, {
        count: order.length,
        find(event) {
            const index = event.target.closest?.(".ribbon")?.dataset.flow;
            return index === undefined ? undefined : order.indexOf(Number(index));
        },
        show(item) {
            if (item === undefined) return mark(undefined);
            mark((flow) => flow === flows[order[item]]);
            return {content: aboutFlow(order[item]), box: () => paths[item].getBoundingClientRect()};
        },
    });
}

function ribbons(width) {
    const longest = largest([...senders, ...receivers].map((host) => hostName(host).length));
    const room = Math.max(84, Math.min(24 + 7 * longest, width * 0.22));
    const [left, right, thick] = [room, width - room, 7];
    const scale = Math.max(110, 34 * Math.max(senders.length, receivers.length)) / sum(flows.map((flow) => flow.bytes));
    const [from, to] = [ribbonNodes(senders, "from", scale), ribbonNodes(receivers, "to", scale)];
    const height = Math.max(bottom(from), bottom(to));
    center(from, height);
    center(to, height);
    const order = flows.map((flow, index) => index).sort((a, b) =>
        (flows[a].from ?? -1) - (flows[b].from ?? -1) || flows[a].to - flows[b].to);
    const paths = ribbonPaths(order, from, to, left + thick, right - thick, scale);
    const picture = pictureOf(width, height + 52,
        drawn("text", {class: "muted", x: left + thick, y: 14, "text-anchor": "end"}, "senders"),
        drawn("text", {class: "muted", x: right - thick, y: 14}, "receivers"),
        drawn("g", {transform: "translate(0 38)"},
            paths, ribbonLabels(from, left, -room, thick), ribbonLabels(to, right - thick, room, thick)));
    const figure = figureOf(
        `${plural(flows.length, "flow")} between hosts. The arrow keys go from flow to flow.`, picture);
    exploreRibbons(figure, picture, order, paths);
    return figure;
}
