// SPDX-License-Identifier: Apache-2.0
// What hosts send, receive, read, write and copy, and how long that takes.
"use strict";

const kinds = [
    {key: "nic_out", title: "sends", colour: "other_host"},
    {key: "nic_in", title: "receives", colour: "other_host"},
    {key: "disk_read", title: "reads", colour: "storage"},
    {key: "disk_write", title: "writes", colour: "storage"},
    {key: "copied", title: "copies", colour: "same_host"},
].map((kind) => {
    const values = hosts.map((host) => host[kind.key]);
    return {...kind, values, total: sum(values), most: largest(values)};
});
const usedKinds = kinds.filter((kind) => kind.total > 0);
const mostLoadRows = 32;

const hostTitle = (index) => element("span", {}, name(hosts[index].name, 32), badges(index));

// A row for each host, a bar for each kind of load; all bars of one colour have one scale.
function loadRows() {
    const most = (colour) => largest(usedKinds.filter((kind) => kind.colour === colour).map((kind) => kind.most));
    const columns = [
        {title: "host", cell: hostTitle, value: (index) => index},
        ...usedKinds.map((kind) => ({
            title: kind.title, value: (index) => kind.values[index],
            cell: (index) => element("div", {class: "load"}, bar(kind.values[index], most(kind.colour), kind.colour), bytes(`/hosts/${index}/${kind.key}`)),
        })),
    ];
    return table({caption: "What each host does in all", columns, rows: hosts.map((host, index) => index), part: mostLoadRows});
}

// Many hosts side by side: one narrow column is the busiest of the `by` hosts that it stands for.
function skyline(kind, width) {
    const by = Math.ceil(hosts.length / width);
    const bars = Math.ceil(hosts.length / by);
    const step = width / bars;
    const height = 84;
    const busiest = Array.from({length: bars}, (unused, bin) => {
        const last = Math.min(hosts.length, (bin + 1) * by);
        let best = bin * by;
        for (let index = best; index < last; ++index) if (kind.values[index] > kind.values[best]) best = index;
        return best;
    });
    const y = (amount) => height - (amount / kind.most) * (height - 2);
    const outline = busiest.map((index, bin) => `V${y(kind.values[index]).toFixed(2)}H${((bin + 1) * step).toFixed(2)}`).join("");
    const mean = kind.total / hosts.length;
    const cursor = drawn("line", {class: "pointer", y1: 0, y2: height, visibility: "hidden"});
    const picture = drawn("svg", {viewBox: `0 0 ${width} ${height + 1}`, width, height: height + 1, "aria-hidden": "true"},
        drawn("path", {class: `area ${kind.colour}`, d: `M0 ${height}${outline}V${height}z`}),
        drawn("line", {class: "axis", x1: 0, x2: width, y1: height + 0.5, y2: height + 0.5}),
        drawn("line", {class: "mean", x1: 0, x2: width, y1: y(mean), y2: y(mean)}), cursor);
    const figure = element("div", {role: "group", "aria-label": `What each host ${kind.title}, in the order of hosts. The arrow keys go from host to host.`}, picture);
    const mark = (bin) => {
        cursor.setAttribute("visibility", bin === undefined ? "hidden" : "visible");
        if (bin === undefined) return;
        cursor.setAttribute("x1", (bin + 0.5) * step);
        cursor.setAttribute("x2", (bin + 0.5) * step);
    };
    marked.listen(`load ${kind.key}`, (host) => mark(host === undefined || host < 0 ? undefined : Math.floor(host / by)));
    explore(figure, {
        count: bars,
        find(event) {
            const box = picture.getBoundingClientRect();
            const bin = Math.floor(((event.clientX - box.left) / box.width) * bars);
            return bin >= 0 && bin < bars ? bin : undefined;
        },
        show(bin) {
            marked.set(bin === undefined ? undefined : busiest[bin]);
            mark(bin);
            if (bin === undefined) return undefined;
            const content = [line(element("strong", {}, hostTitle(busiest[bin]))),
                ...usedKinds.map((each) => line(`${each.title} `, bytes(`/hosts/${busiest[bin]}/${each.key}`)))];
            return {content, box: () => cursor.getBoundingClientRect()};
        },
    });
    return figure;
}

function skylines() {
    return usedKinds.map((kind) => {
        const busiest = kind.values.indexOf(kind.most);
        const idle = kind.values.filter((value) => value === 0).length;
        const box = element("div");
        const words = element("p", {class: "small"}, hostTitle(busiest), ` ${kind.title} most: `, bytes(`/hosts/${busiest}/${kind.key}`), "; the mean is ",
            derived(kind.total / hosts.length), idle > 0 ? `; ${plural(idle, "host")} ${idle === 1 ? "has" : "have"} nothing to do here` : "");
        const figure = element("figure", {class: "skyline unbroken"}, element("h3", {}, `Each host ${kind.title}`), words, box);
        requestAnimationFrame(() => drawToWidth(box, (width) => skyline(kind, width)));
        return figure;
    });
}

function showLoads() {
    if (hosts.length < 2 || usedKinds.length === 0) return byId("loads").remove();
    const rows = hosts.length <= mostLoadRows;
    put("loads-words", rows ? "Bars of one colour have one scale." :
        "Hosts from left to right, in the order given; the dashed line is the mean. The table of hosts is below, under All numbers.");
    put("loads-figure", rows ? loadRows() : skylines());
}

const resourceColours = {"disk read": "storage", "disk write": "storage", "NIC in": "other_host", "NIC out": "other_host", memory: "same_host"};

function showTime() {
    const ways = {memory: "between the memories of devices", stores: "between the stores of hosts", shared: "through shared storage"};
    put("time-words", "Each resource takes at least this long on its busiest host; all work at the same time, so that the change takes at least ",
        seconds("/seconds"), `, ${ways[data.state] ?? data.state}.`);
    const columns = [
        {title: "resource", cell: ([resource]) => [resource.resource, resource.resource === data.binding ? element("span", {class: "badge binding"}, "binding") : ""]},
        {title: "time", cell: ([resource, index]) => element("div", {class: "load"},
            bar(resource.seconds, data.seconds, resourceColours[resource.resource] ?? ""), seconds(`/resources/${index}/seconds`))},
        {title: "bytes", numeric: true, cell: ([, index]) => bytes(`/resources/${index}/bytes`)},
        {title: "rate", numeric: true, cell: ([resource, index]) => [number(`/resources/${index}/rate`, "rate"), resource.assumed ? " *" : ""]},
        {title: "host", cell: ([resource]) => (resource.bytes > 0 && hosts[resource.host] ? name(hosts[resource.host].name, 32) : "–")},
    ];
    put("time-figure", table({caption: "Least time by resource", columns, rows: data.resources.map((resource, index) => [resource, index])}),
        data.resources.some((resource) => resource.assumed) ?
            element("p", {class: "small muted"}, "* assumed, since nobody gave this rate; a file for --hosts can.") : null);
}
