// SPDX-License-Identifier: Apache-2.0
// What hosts send, receive, read, write and copy: rows with bars for few hosts, otherwise skylines.
"use strict";

const kinds = [
    {key: "nic_out", title: "sends", color: "other_host"},
    {key: "nic_in", title: "receives", color: "other_host"},
    {key: "disk_read", title: "reads", color: "storage"},
    {key: "disk_write", title: "writes", color: "storage"},
    {key: "copied", title: "copies", color: "same_host"},
].map((kind) => {
    const values = hosts.map((host) => host[kind.key]);
    return {...kind, values, total: sum(values), most: largest(values)};
});
const usedKinds = kinds.filter((kind) => kind.total > 0);
const mostLoadRows = 32;

const hostTitle = (index) => element("span", {}, name(hosts[index].name, 32), badges(index));
const load = (index, {key}) => bytes(`/hosts/${index}/${key}`);

// A row for each host, a bar for each kind of load; all bars of the same color have the same scale.
function loadRows() {
    const most = (color) => largest(usedKinds.filter((kind) => kind.color === color).map((kind) => kind.most));
    const kindColumn = (kind) => {
        const scale = most(kind.color);
        return {
            title: kind.title,
            cell: (index) => barCell(bar(kind.values[index], scale, kind.color), load(index, kind)),
            value: (index) => kind.values[index],
        };
    };
    return table({
        caption: "Total loads of each host",
        columns: [{title: "host", cell: hostTitle, value: (index) => index}, ...usedKinds.map(kindColumn)],
        rows: hosts.map((host, index) => index),
        part: mostLoadRows,
    });
}

// The busiest host of every `by` hosts.
function busiestOf(values, by) {
    return Array.from({length: Math.ceil(values.length / by)}, (unused, bin) => {
        let best = bin * by;
        for (let index = best; index < Math.min(values.length, best + by); ++index)
            if (values[index] > values[best]) best = index;
        return best;
    });
}

function aboutLoads(index) {
    const lines = usedKinds.map((kind) => line(`${kind.title} `, load(index, kind)));
    return [line(element("strong", {}, hostTitle(index))), ...lines];
}

// Many hosts side by side: each narrow column shows the busiest of the hosts that it represents.
function skyline(kind, width) {
    const by = Math.ceil(hosts.length / width);
    const busiest = busiestOf(kind.values, by);
    const [step, height] = [width / busiest.length, 84];
    const y = (amount) => height - (amount / kind.most) * (height - 2);
    const steps = busiest.map((index, bin) => `V${y(kind.values[index]).toFixed(2)}H${((bin + 1) * step).toFixed(2)}`);
    const mean = y(kind.total / hosts.length);
    const pointer = frameOf(0, height, "pointer");
    const picture = pictureOf(width, height + 1,
        drawn("path", {class: `area ${kind.color}`, d: `M0 ${height}${steps.join("")}V${height}z`}),
        drawn("line", {class: "axis", x1: 0, x2: width, y1: height + 0.5, y2: height + 0.5}),
        drawn("line", {class: "mean", x1: 0, x2: width, y1: mean, y2: mean}), pointer);
    const figure = figureOf(
        `What each host ${kind.title}, in the order of hosts. The arrow keys go from host to host.`, picture);
    const mark = (bin) => place(pointer, bin === undefined ? undefined : [(bin + 0.5) * step, 0], 0);
    marked.listen(`load ${kind.key}`, (host) => mark(host >= 0 ? Math.floor(host / by) : undefined));
    explore(figure, {
        count: busiest.length,
        find(event) {
            const bin = Math.floor(pointIn(picture, event)[0] / step);
            return bin in busiest ? bin : undefined;
        },
        show(bin) {
            marked.set(busiest[bin]);
            mark(bin);
            if (bin === undefined) return undefined;
            return {content: aboutLoads(busiest[bin]), box: () => pointer.getBoundingClientRect()};
        },
    });
    return figure;
}

function skylines() {
    return usedKinds.map((kind) => {
        const busiest = kind.values.indexOf(kind.most);
        const idle = kind.values.filter((value) => value === 0).length;
        const words = element("p", {class: "small"}, hostTitle(busiest), ` ${kind.title} most: `, load(busiest, kind),
            "; the mean is ", derived(kind.total / hosts.length),
            idle > 0 ? `; ${plural(idle, "host")} ${idle === 1 ? "has" : "have"} nothing to do here` : null);
        const box = element("div");
        requestAnimationFrame(() => drawToWidth(box, (width) => skyline(kind, width)));
        return element("figure", {class: "skyline unbroken"}, element("h3", {}, `Each host ${kind.title}`), words, box);
    });
}

function showLoads() {
    if (hosts.length < 2 || usedKinds.length === 0) return byId("loads").remove();
    const few = hosts.length <= mostLoadRows;
    const memory = "These are the loads if state goes from memory to memory; " +
        "through shared storage, hosts read and write instead, as the times below assume. ";
    put("loads-words", data.checkpoint && data.state === "shared" ? memory : null, few ?
        "Bars of the same color have the same scale." :
        "Hosts from left to right, in the order given; the dashed line is the mean. " +
        "The table of hosts is below, under All numbers.");
    put("loads-figure", few ? loadRows() : skylines());
}
