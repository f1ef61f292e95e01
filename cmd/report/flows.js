// SPDX-License-Identifier: Apache-2.0
// Bytes sent from host to host: ribbons for few hosts, otherwise a matrix.
"use strict";

const flows = data.flows;
const mostRibbonHosts = 16;

// The hosts that send and those that receive; storage, which is null, first.
const ascending = (list) => [...new Set(list)].sort((a, b) => (a ?? -1) - (b ?? -1));
const senders = ascending(flows.map((flow) => flow.from));
const receivers = ascending(flows.map((flow) => flow.to));

const aboutFlow = (index) => [
    line(element("strong", {}, hostName(flows[index].from), " → ", hostName(flows[index].to))),
    line(bytes(`/flows/${index}/bytes`)),
];

function flowsWords() {
    const sending = senders.filter((host) => host !== null).length;
    const receiving = receivers.length;
    const parts = [];
    if (sending > 0) {
        parts.push(`${plural(sending, "host")} ${verb(sending, "send")} to others, ` +
            `${plural(receiving, "host")} ${verb(receiving, "receive")}`);
    }
    if (senders.includes(null)) parts.push("state that no host holds comes from shared storage");
    return `${parts.join("; ")}. A host may send on what it has received. `;
}

function showFlows() {
    if (flows.length === 0) return byId("flows").remove();
    const few = senders.length <= mostRibbonHosts && receivers.length <= mostRibbonHosts;
    const left = data.flows_left_out ? ["The page has the largest flows; ", count("/flows_left_out/flows"),
        " smaller ones with ", bytes("/flows_left_out/bytes"), " in total are omitted."] : null;
    put("flows-words", flowsWords(), left);
    put("flows-caption",
        few ? null : "Rows are senders, columns are receivers; the stronger the color, the more bytes. ",
        element("span", {class: "on-screen"}, "The same flows are listed below, under All numbers."));
    drawToWidth(byId("flows-figure"), few ? ribbons : matrix);
}
