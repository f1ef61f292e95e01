// SPDX-License-Identifier: Apache-2.0
// The head of the page: what changes, how many bytes must cross between hosts, and how far all bytes travel.
"use strict";

const travels = [
    {key: "kept", title: "kept", words: "stay on their device unchanged"},
    {key: "local", title: "local", words: "stay on their device, resharded"},
    {key: "same_host", title: "same host", words: "go to another device of the host"},
    {key: "other_host", title: "other host", words: "cross from host to host"},
    {key: "storage", title: "storage", words: "come from shared storage"},
];
const usedTravels = travels.filter(({key}) => key !== "storage" || data.total.storage > 0);

const degrees = {
    pp: "stages",
    tp: "tensor parts",
    dp: "data parallel",
    fsdp: "shards",
    cp: "context parts",
    ep: "expert blocks",
    etp: "parts of an expert",
    vpp: "chunks per stage",
};

function showHead() {
    const path = data.checkpoint;
    const title = data.model ?? path.split("/").filter(Boolean).at(-1) ?? path;
    document.title = `${shown(title)} – tpx plan`;
    put("name", name(title, 120));
    put("kind", data.model ? "Plan for a model" : "Plan for a checkpoint");
    if (!path || path === title) return;
    put("path", name(path));
    byId("path").hidden = false;
}

// The degrees to show: those that are more than 1 before or after.
function usedDegrees() {
    const layouts = sides.map((side) => side.layout).filter((layout) => layout !== null);
    const plain = layouts.every((layout) => layout.ep === 1 || layout.etp === layout.tp);
    return Object.keys(degrees).filter((key) => layouts.some((layout) => layout[key] > 1) && !(key === "etp" && plain));
}

// The degrees of both layouts; those that differ are emphasized.
function showDegrees() {
    const ends = ["from", "to"];
    const [from, to] = ends.map((end) => data[end].layout);
    const degreeRow = (key) => {
        const title = [element("code", {}, key), element("span", {class: "muted small"}, degrees[key])];
        const cells = ends.map((end) => numeric(data[end].layout ? count(`/${end}/layout/${key}`) : "?"));
        return element("tr", {class: from && to && from[key] !== to[key] && "differs"}, rowHead(title), cells);
    };
    const dialect = (end) => {
        const names = data[end].dialect;
        return names && names !== "keep" ? element("div", {class: "muted small"}, `${names} names`) : null;
    };
    const formats = data.from.format
        ? element("tr", {}, rowHead("format"), ends.map((end) => numeric(data[end].format, dialect(end))))
        : null;
    const texts = [from, to].map((layout) => (layout ? element("code", {}, layout.text) : "no known layout"));
    const counts = sides.map((side) => numeric(derived(side.count, "count")));
    const ranks = element("tr", {class: "total"}, rowHead(sides[0].stores ? "stores, ranks" : "ranks"), counts);
    put("degrees", element("table", {class: "degrees"},
        element("caption", {}, texts[0], " → ", texts[1]),
        element("thead", {}, element("tr", {}, element("td"), columnHead("before", true), columnHead("after", true))),
        element("tbody", {}, usedDegrees().map(degreeRow), ranks, formats)));
}

function showVerdict() {
    const {certificate, total} = data;
    if (certificate.between_hosts === 0) {
        put("verdict", hosts.length > 1 ? "No byte has to leave its host" : "All stays on one host");
    } else {
        const way = total.other_host > 0 ? " cross between hosts" : " come from shared storage";
        const least = {optimal: ", the least possible", groups: ", the least for whole TP groups"}[certificate.placement]
            ?? ", the least for this placement";
        put("verdict", bytes("/certificate/between_hosts"), way, certificate.minimal ? least : null);
    }
    const kept = total.kept === total.needed ? ["all of them are"] : [bytes("/total/kept"), " are"];
    const needed = bytes("/total/needed");
    put("elsewhere", "of ", needed, " that the new ranks need; ", kept, " already where they are needed.");
    const facts = [
        [data.estimate ? "takes about" : "takes at least", seconds("/seconds")],
        data.seconds > 0 && ["bound by", data.binding],
        ["hosts", derived(hosts.length, "count")],
        data.transfers > 0 && ["transfers", count("/transfers")],
        data.rounds > 0 && ["in rounds", count("/rounds")],
        data.read > 0 && ["reads", bytes("/read")],
        data.write > 0 && ["writes", bytes("/write")],
    ].filter(Boolean);
    put("facts", facts.map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value))));
}

// The bytes at `pointer` as parts of one bar, by how far they travel.
function travelBar(pointer) {
    const needed = at(`${pointer}/needed`);
    return usedTravels.filter(({key}) => at(`${pointer}/${key}`) > 0).map(({key}) => {
        const part = element("span", {class: key});
        part.style.flexGrow = at(`${pointer}/${key}`) / needed;
        return part;
    });
}

function showTravels() {
    const {total} = data;
    const percent = (key) => percentText(total[key], total.needed);
    put("stack", travelBar("/total"));
    byId("stack").setAttribute("aria-label", usedTravels.map(({key, title}) => `${title}: ${percent(key)}`).join(", "));
    put("legend", usedTravels.map(({key, title, words}) => element("div", {class: total[key] === 0 && "none"},
        element("dt", {}, element("span", {class: `swatch ${key}`}), title),
        element("dd", {}, bytes(`/total/${key}`), element("span", {class: "muted"}, ` ${percent(key)}`)),
        element("dd", {class: "muted small"}, words))));
}

function showRoles() {
    const roleRow = (title, pointer, total) => element("tr", {class: total && "total"}, rowHead(title),
        ["needed", ...usedTravels.map(({key}) => key)].map((key) => numeric(
            element("span", {class: at(`${pointer}/${key}`) === 0 && "muted"}, bytes(`${pointer}/${key}`)))),
        element("td", {class: "share"},
            element("span", {class: "stack thin", "aria-hidden": "true"}, travelBar(pointer))));
    const roles = Object.keys(data.roles);
    const heads = usedTravels.map(({key, title}) =>
        columnHead([element("span", {class: `swatch ${key}`}), title], true));
    put("roles", element("div", {class: "table scroll", tabindex: 0, role: "region", "aria-label": "Bytes by role"},
        element("table", {},
            element("thead", {}, element("tr", {},
                columnHead("role"), columnHead("needed", true), heads, element("td", {class: "share"}))),
            element("tbody", {},
                roles.map((role) => roleRow(name(role, 48), `/roles/${step(role)}`, false)),
                roles.length > 1 ? roleRow("all", "/total", true) : null))));
}
