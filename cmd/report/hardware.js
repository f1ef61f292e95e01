// SPDX-License-Identifier: Apache-2.0
// Hosts, disks, links and GPUs, as tpx profile hardware measured them.
"use strict";

const {hosts, pairs, links} = data;
const levels = 6;
const classNames = {same_socket: "same socket", same_host: "same host", same_switch: "same switch", other: "other hosts"};

// A measured number, or a dash where nothing was measured.
const measured = (pointer, unit = "rate") => (at(pointer) > 0 ? number(pointer, unit) : "–");
const spreadText = (spread) => `${(100 * spread).toFixed(1)} %`;
const counted = (pointer) => (at(pointer) > 0 ? count(pointer) : "–");
const column = (title, pointer, show = measured) =>
    ({title, numeric: true, value: (index) => at(pointer(index)), cell: (index) => show(pointer(index))});
const rowsOf = (list) => list.map((unused, index) => index);

function showHosts() {
    put("name", plural(hosts.length, "host"));
    const ranks = sum(hosts.map((host) => host.ranks));
    const classes = new Set(hosts.map((host) => host.class)).size;
    put("words", `${plural(ranks, "rank")}, ${plural(classes, "class").replace("classs", "classes")} of hosts`);
    const own = (key) => (index) => `/hosts/${index}/${key}`;
    const head = {title: "host", value: (index) => hosts[index].name, cell: (index) => name(hosts[index].name, 40)};
    const group = {title: "switch", value: (index) => hosts[index].switch, cell: (index) => hosts[index].switch ? name(hosts[index].switch, 20) : "–"};
    const kind = {title: "class", numeric: true, value: (index) => hosts[index].class, cell: (index) => number(`/hosts/${index}/class`, "count")};
    put("hosts", table({caption: "Hosts", rows: rowsOf(hosts), columns: [head, kind, group, column("ranks", own("ranks"), counted),
        column("sockets", own("sockets"), counted), column("cores", own("cores"), counted),
        column("memory", own("memory/median")), column("disk read", own("disk_read/median")),
        column("disk write", own("disk_write/median")), column("NIC", own("nic/median"))]}));
    put("disks", folded("Disks in detail", () => table({caption: "Disks", rows: rowsOf(hosts), columns: [head,
        column("direct read", own("disk_read_direct/median")), column("direct write", own("disk_write_direct/median")),
        column("buffered read", own("disk_read_buffered/median")), column("buffered write", own("disk_write_buffered/median")),
        column("both at once", own("disk_both/median")), column("read, all hosts", own("disk_read_together/median")),
        column("write, all hosts", own("disk_write_together/median"))]})));
}

// The tint of a rate, on a scale from 0 to the fastest rate.
const levelOf = (rate, most) => Math.min(levels - 1, Math.floor((levels * rate) / most));

// A map of `rate(from, to)` (0: not measured) between `names`; rows are senders. If there are many names, several links
// share a cell, which shows the slowest.
function heatMap({names, rate, marked, about, label}, width) {
    const size = names.length;
    const left = Math.min(130, Math.max(60, width * 0.16));
    const top = 24;
    const room = Math.min(width - left - 1, 640);
    const by = Math.ceil(size / Math.max(8, Math.floor(room / 8)));
    const lines = Math.ceil(size / by);
    const cell = Math.min(40, room / lines);
    const cells = [];
    for (let a = 0; a < lines; ++a)
        for (let b = 0; b < lines; ++b) {
            let slowest;
            for (let from = a * by; from < Math.min(size, (a + 1) * by); ++from)
                for (let to = b * by; to < Math.min(size, (b + 1) * by); ++to) {
                    const value = rate(from, to);
                    if (value > 0 && (!slowest || value < slowest.rate)) slowest = {a, b, from, to, rate: value};
                }
            if (slowest) cells.push(slowest);
        }
    const most = largest(cells.map((each) => each.rate));
    const gap = cell >= 8 ? 1 : 0;
    const corner = ({a, b}) => [left + b * cell, top + a * cell];
    const square = (each, kind) => {
        const [x, y] = corner(each);
        return drawn("rect", {class: kind, x: x + gap, y: y + gap, width: cell - gap, height: cell - gap});
    };
    const every = Math.ceil(16 / cell);
    const labels = names.filter((unused, index) => index % (by * every) === 0).map((text, index) =>
        drawn("text", {class: "muted", x: left - 8, y: top + (index * every + 0.5) * cell + 4, "text-anchor": "end"},
            shortened(shown(text), Math.floor(left / 7))));
    const cursor = frameOf(cell + 2, cell + 2, "cursor");
    const picture = pictureOf(width, top + lines * cell + 4, labels,
        drawn("text", {class: "muted", x: left, y: top - 8}, "receivers, in the same order"),
        cells.map((each) => square(each, `rate rate${levelOf(each.rate, most)}`)),
        cells.filter((each) => marked(each.from, each.to)).map((each) => square(each, "slow-link")), cursor);
    const figure = figureOf(label, picture);
    const numbers = new Map(cells.map(({a, b}, index) => [`${a},${b}`, index]));
    explore(figure, {
        count: cells.length,
        row: Math.max(1, lines - 1),
        find(event) {
            const [x, y] = pointIn(picture, event);
            return numbers.get(`${Math.floor((y - top) / cell)},${Math.floor((x - left) / cell)}`);
        },
        show(item) {
            place(cursor, item === undefined ? undefined : corner(cells[item]), 1);
            if (item === undefined) return undefined;
            return {content: about(cells[item].from, cells[item].to), box: () => cursor.getBoundingClientRect()};
        },
    });
    const swatches = Array.from({length: levels}, (unused, index) => element("span", {class: `rate-swatch rate${index}`}));
    const legend = element("p", {class: "rates small muted"}, derived(0, "rate"), swatches, derived(most, "rate"),
        by > 1 ? ` each cell is the slowest of ${by} × ${by}` : null);
    return element("div", {class: "heat"}, figure, legend);
}

const lineOf = (...content) => element("div", {}, content);

function showLinks() {
    if (pairs.length === 0) return;
    byId("links").hidden = false;
    put("links-words", "Messages between two ranks, by how near the ranks are; between hosts, a pair counts once in each direction.");
    const own = (key) => (index) => `/pairs/${index}/${key}`;
    put("pairs", table({caption: "Pairs of ranks", rows: rowsOf(pairs), columns: [
        {title: "pair", cell: (index) => classNames[pairs[index].class]}, column("count", own("count"), counted),
        column("latency", own("latency"), (pointer) => measured(pointer, "seconds")), column("rate", own("rate")),
        column("slowest", own("slowest"))]}));
    if (links.length === 0) return;
    const numberOf = new Map(hosts.map((host, index) => [host.name, index]));
    const index = new Map(links.map((link, position) => [`${numberOf.get(link.from)},${numberOf.get(link.to)}`, position]));
    const slow = new Set(data.slow_links.map((link) => `${numberOf.get(link.from)},${numberOf.get(link.to)}`));
    const find = (from, to) => links[index.get(`${from},${to}`)];
    const box = element("div");
    put("map", box);
    drawToWidth(box, (width) => heatMap({
        names: hosts.map((host) => host.name),
        rate: (from, to) => find(from, to)?.rate ?? 0,
        marked: (from, to) => slow.has(`${from},${to}`),
        about: (from, to) => {
            const link = find(from, to);
            return [lineOf(element("strong", {}, name(link.from, 24), " → ", name(link.to, 24))),
                lineOf(`${rateText(link.rate)}, spread ${spreadText(link.spread)}`), lineOf(`latency ${timeText(link.latency)}`)];
        },
        label: `Map of ${plural(links.length, "link")}: senders from top to bottom, receivers from left to right. ` +
            "The arrow keys go from link to link.",
    }, width));
    const ends = (list) => [{title: "from", value: (item) => list[item].from, cell: (item) => name(list[item].from, 40)},
        {title: "to", value: (item) => list[item].to, cell: (item) => name(list[item].to, 40)}];
    if (data.slow_links.length > 0)
        put("slow", table({caption: "Links that are slower than both of their ends", rows: rowsOf(data.slow_links), columns: [
            ...ends(data.slow_links), column("rate", (item) => `/slow_links/${item}/rate`),
            column("expected", (item) => `/slow_links/${item}/expected`)]}));
    put("all-links", folded("All links", () => table({caption: "Links", rows: rowsOf(links), columns: [...ends(links),
        column("rate", (item) => `/links/${item}/rate`),
        {title: "spread", numeric: true, value: (item) => links[item].spread, cell: (item) => spreadText(links[item].spread)},
        column("latency", (item) => `/links/${item}/latency`, (pointer) => measured(pointer, "seconds"))]})));
}

function showGpus() {
    const rows = hosts.flatMap((host, index) => host.gpus.map((gpu, item) => ({host: index, item, gpu})));
    if (rows.length === 0) return;
    byId("gpus").hidden = false;
    const own = (key) => (row) => `/hosts/${row.host}/gpus/${row.item}/${key}`;
    put("gpu-table", table({caption: "GPUs", rows, columns: [
        {title: "GPU", cell: (row) => [name(hosts[row.host].name, 24), ` ${row.item}`]},
        {title: "name", cell: (row) => name(row.gpu.name, 40)},
        {title: "NUMA node", numeric: true, cell: (row) => (row.gpu.numa_node < 0 ? "–" : String(row.gpu.numa_node))},
        column("NVLinks", own("nvlinks"), counted), column("from the host", own("to_device/median")),
        column("to the host", own("from_device/median")), column("its memory", own("copy/median"))]}));
    const {nccl} = data;
    const parts = Object.keys(classNames).filter((key) => nccl[key].median > 0)
        .map((key) => [`, ${classNames[key]} `, number(`/nccl/${key}/median`, "rate")]);
    if (nccl.gpus > 0)
        put("nccl", "NCCL over ", count("/nccl/gpus"), " GPUs: all-reduce ", measured("/nccl/all_reduce/median"), parts);
    put("peers", hosts.filter((host) => host.gpus.some((gpu) => gpu.peers.length > 0)).map((host) => {
        const box = element("div");
        queueMicrotask(() => drawToWidth(box, (width) => heatMap({
            names: host.gpus.map((unused, item) => `GPU ${item}`),
            rate: (from, to) => host.gpus[from].peers[to]?.median ?? 0,
            marked: () => false,
            about: (from, to) => [lineOf(element("strong", {}, `GPU ${from} → GPU ${to}`)),
                lineOf(rateText(host.gpus[from].peers[to].median))],
            label: `Map of the links between ${plural(host.gpus.length, "GPU")} of ${shown(host.name)}. ` +
                "The arrow keys go from link to link.",
        }, width)));
        return element("div", {}, element("h3", {}, "Between GPUs of ", name(host.name, 40)), box);
    }));
}

function showRest() {
    if (data.degraded.length > 0) {
        byId("slower").hidden = false;
        put("slower-table", table({caption: "What is slower", rows: rowsOf(data.degraded), columns: [
            {title: "what", cell: (item) => name(data.degraded[item].what, 60)},
            column("now", (item) => `/degraded/${item}/now`), column("before", (item) => `/degraded/${item}/before`)]}));
    }
    if (data.noisy.length > 0) {
        byId("noise").hidden = false;
        put("noise-list", data.noisy.slice(0, 50).map((text) => element("li", {}, name(text))),
            data.noisy.length > 50 ? element("li", {}, `and ${countText(data.noisy.length - 50)} more`) : null);
    }
}

showHosts();
showLinks();
showGpus();
showRest();
document.documentElement.dataset.ready = "true";
