// SPDX-License-Identifier: Apache-2.0
// The minimum time that each resource takes.
"use strict";

const resourceColors = {
    "disk read": "storage",
    "disk write": "storage",
    "NIC in": "other_host",
    "NIC out": "other_host",
    memory: "same_host",
};

const ways = {
    memory: "between the memories of devices",
    stores: "between the stores of hosts",
    shared: "through shared storage",
};

function showTime() {
    const {resources} = data;
    const counted = resources.map((resource, index) => index).filter((index) => resources[index].counts);
    put("time-words", "Each resource takes this long on its busiest host; all work at the same time, ",
        `so that the change takes ${data.estimate ? "about" : "at least"} `, seconds("/seconds"), `, ${ways[data.state] ?? data.state}.`);
    const badge = (resource) =>
        resource === data.binding && data.seconds > 0 ? element("span", {class: "badge binding"}, "binding") : null;
    const time = (index) => {
        const {resource, seconds: amount} = resources[index];
        const made = bar(amount, data.seconds, resourceColors[resource] ?? "");
        return barCell(made, seconds(`/resources/${index}/seconds`));
    };
    const host = ({bytes: amount, host: index}) => (amount > 0 && hosts[index] ? hostTitle(index) : "–");
    const columns = [
        {title: "resource", cell: (index) => [resources[index].resource, badge(resources[index].resource)]},
        {title: "time", cell: time},
        {title: "bytes", numeric: true, cell: (index) => bytes(`/resources/${index}/bytes`)},
        {title: "rate", numeric: true, cell: (index) =>
            [number(`/resources/${index}/rate`, "rate"), resources[index].assumed ? " *" : null]},
        {title: "host", cell: (index) => host(resources[index])},
    ];
    const words = "* assumed, because the rate is unknown; the file of --hosts can contain it.";
    const assumed = element("p", {class: "small muted"}, words);
    put("time-figure",
        table({caption: "Minimum time by resource", columns, rows: counted}),
        counted.some((index) => resources[index].assumed) ? assumed : null);
}
