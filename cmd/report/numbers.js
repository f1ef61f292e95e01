// SPDX-License-Identifier: Apache-2.0
// All numbers as tables, and the data as a file.
"use strict";

const hostCell = (index) => (index === null ? "shared storage" : name(hosts[index].name, 48));

// A column of the numbers at `pointer(row)`, sorted by `value(row)`.
const numberColumn = (title, pointer, value, unit = "bytes") =>
    ({title, numeric: true, cell: (row) => number(pointer(row), unit), value});

function rankTable(side) {
    const {seats, places, layout, held, key, title, noun} = side;
    const hostOf = (rank) => seats[rank]?.[0] ?? -1;
    const used = places ? Object.keys(axes).filter((axis) => layout[axis] > 1) : [];
    return table({
        caption: `What holds the state ${title.toLowerCase()} the change`,
        rows: seats.map((seat, rank) => rank),
        columns: [
            {title: noun, cell: (rank) => String(rank), value: (rank) => rank},
            {title: "host", cell: (rank) => (seats[rank] ? hostCell(hostOf(rank)) : "none"), value: hostOf},
            {title: "device", cell: (rank) => (seats[rank] ? String(seats[rank][1] ?? "store") : "–")},
            ...used.map((axis) => ({
                title: axis,
                numeric: true,
                cell: (rank) => String(places[rank][axis]),
                value: (rank) => places[rank][axis],
            })),
            numberColumn("holds", (rank) => `/${key}_bytes/${rank}`, (rank) => held[rank]),
        ],
    });
}

function hostTable() {
    const switchOf = (index) => hosts[index].switch;
    const switches = {title: "switch", cell: (index) => name(switchOf(index), 48), value: switchOf};
    return table({
        caption: "Hosts and what they do",
        rows: hosts.map((host, index) => index),
        columns: [
            {title: "host", cell: hostTitle, value: (index) => index},
            numberColumn("devices", (index) => `/hosts/${index}/gpus`, (index) => hosts[index].gpus, "count"),
            ...(hosts.some((host) => host.switch) ? [switches] : []),
            ...kinds.map(({key, title, values}) =>
                numberColumn(title, (index) => `/hosts/${index}/${key}`, (index) => values[index])),
        ],
    });
}

function flowTable() {
    return table({
        caption: "Flows: the sum of all transfers from one host to another",
        rows: flows.map((flow, index) => index),
        columns: [
            {title: "from", cell: (index) => hostCell(flows[index].from), value: (index) => flows[index].from ?? -1},
            {title: "to", cell: (index) => hostCell(flows[index].to), value: (index) => flows[index].to},
            numberColumn("bytes", (index) => `/flows/${index}/bytes`, (index) => flows[index].bytes),
        ],
    });
}

function saveData() {
    const file = new Blob([byId("data").textContent], {type: "application/json"});
    const link = element("a", {href: URL.createObjectURL(file), download: "plan.json"});
    link.click();
    URL.revokeObjectURL(link.href);
}

function showNumbers() {
    const title = (side) =>
        `${side.stores ? "Stores" : "Ranks"} ${side.title.toLowerCase()} (${countText(side.count)})`;
    const save = element("button", {type: "button", class: "plain-button", onclick: saveData}, "Save as JSON");
    put("tables",
        folded(`Hosts (${countText(hosts.length)})`, hostTable),
        sides.map((side) => folded(title(side), () => rankTable(side))),
        flows.length > 0 ? folded(`Flows between hosts (${countText(flows.length)})`, flowTable) : null,
        element("p", {}, save));
}
