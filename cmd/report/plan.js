// SPDX-License-Identifier: Apache-2.0
// Fills the page of a plan.
"use strict";

const travels = [
    {key: "kept", title: "kept", words: "stay on their device as they are"},
    {key: "local", title: "local", words: "stay on their device, cut anew"},
    {key: "same_host", title: "same host", words: "go to another device of the host"},
    {key: "other_host", title: "other host", words: "cross from host to host"},
    {key: "storage", title: "storage", words: "come from shared storage"},
];
const usedTravels = travels.filter(({key}) => key !== "storage" || data.total.storage > 0);

const degreeNames = {pp: "stages", tp: "tensor parts", dp: "data parallel", fsdp: "shards", cp: "context parts", ep: "expert blocks", etp: "parts of an expert", vpp: "chunks a stage"};

function showHead() {
    const path = data.checkpoint;
    const title = data.model ?? path.split("/").filter(Boolean).at(-1) ?? path;
    document.title = `${shown(title)} – tpx plan`;
    put("name", name(title, 120));
    put("kind", data.model ? "Plan for a model" : "Plan for a checkpoint");
    if (path && path !== title) {
        put("path", name(path));
        byId("path").hidden = false;
    }
}

// Degrees of both layouts, those that differ emphasised; what is 1 on both sides is left out.
function showDegrees() {
    const [from, to] = sides.map((side) => side.layout);
    const degree = (layout, key) => (layout ? layout[key] ?? 1 : null);
    const keys = Object.keys(degreeNames).filter((key) => {
        if (key === "etp" && [from, to].every((layout) => !layout || layout.ep === 1 || layout.etp === layout.tp)) return false;
        return degree(from, key) > 1 || degree(to, key) > 1;
    });
    const row = (key) => {
        const differs = from && to && degree(from, key) !== degree(to, key);
        return element("tr", {class: differs && "differs"}, element("th", {scope: "row"}, element("code", {}, key), element("span", {class: "muted small"}, degreeNames[key])),
            ["from", "to"].map((side) => element("td", {class: "numeric"}, data[side].layout ? number(`/${side}/layout/${key}`, "count") : "?")));
    };
    const formats = data.from.format && element("tr", {}, element("th", {scope: "row"}, "format"),
        ["from", "to"].map((side) => element("td", {class: "numeric"}, data[side].format, data[side].dialect && data[side].dialect !== "keep" ? element("div", {class: "muted small"}, `${data[side].dialect} names`) : "")));
    put("degrees", element("table", {class: "degrees"},
        element("caption", {}, [from, to].map((layout, k) => [k > 0 ? " → " : "", layout ? element("code", {}, layout.text) : "no known layout"])),
        element("thead", {}, element("tr", {}, element("td"), element("th", {scope: "col", class: "numeric"}, "before"), element("th", {scope: "col", class: "numeric"}, "after"))),
        element("tbody", {}, keys.map(row),
            element("tr", {class: "total"}, element("th", {scope: "row"}, "ranks"), sides.map((side) => element("td", {class: "numeric"}, derived(side.count, "count")))),
            formats)));
}

function showVerdict() {
    const {certificate, total} = data;
    const crossing = certificate.between_hosts;
    if (crossing === 0) put("verdict", hosts.length > 1 ? "No byte has to leave its host" : "All stays on one host");
    else put("verdict", bytes("/certificate/between_hosts"), ` ${total.other_host > 0 ? "cross between hosts" : "come from shared storage"}${certificate.minimal ? ", the least possible" : ""}`);
    put("elsewhere", "of ", bytes("/total/needed"), " that the new ranks need; ",
        total.kept === total.needed ? "all of it is" : [bytes("/total/kept"), " are"].flat(), " where they are needed already.");
    const facts = [
        ["takes at least", seconds("/seconds")],
        ["bound by", data.binding],
        ["hosts", derived(hosts.length, "count")],
        data.transfers > 0 && ["transfers", count("/transfers")],
        data.rounds > 0 && ["in rounds", count("/rounds")],
        data.read > 0 && ["reads", bytes("/read")],
        data.write > 0 && ["writes", bytes("/write")],
        data.pieces && ["pieces", count("/pieces")],
        data.files && ["files", count("/files")],
    ].filter(Boolean);
    put("facts", facts.map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value))));
}

function showStack() {
    const {total} = data;
    const stack = byId("stack");
    for (const {key} of usedTravels) {
        if (total[key] === 0) continue;
        const part = element("span", {class: key});
        part.style.flexGrow = total[key] / total.needed;
        stack.append(part);
    }
    stack.setAttribute("aria-label", usedTravels.map(({key, title}) => `${title}: ${percentText(total[key], total.needed)}`).join(", "));
    put("legend", usedTravels.map(({key, title, words}) => element("div", {class: total[key] === 0 && "none"},
        element("dt", {}, element("span", {class: `swatch ${key}`}), title),
        element("dd", {}, bytes(`/total/${key}`), element("span", {class: "muted"}, ` ${percentText(total[key], total.needed)}`),
            element("div", {class: "muted small"}, words)))));
}

function showRoles() {
    const roles = Object.keys(data.roles);
    const cells = (pointer) => ["needed", ...usedTravels.map(({key}) => key)].map((key) =>
        element("td", {class: "numeric"}, at(`${pointer}/${key}`) === 0 ? element("span", {class: "muted"}, bytes(`${pointer}/${key}`)) : bytes(`${pointer}/${key}`)));
    const share = (pointer) => {
        const stack = element("span", {class: "stack thin", "aria-hidden": "true"});
        for (const {key} of usedTravels) {
            const part = element("span", {class: key});
            part.style.flexGrow = at(`${pointer}/${key}`) / Math.max(1, at(`${pointer}/needed`));
            if (at(`${pointer}/${key}`) > 0) stack.append(part);
        }
        return element("td", {class: "share"}, stack);
    };
    const row = (title, pointer, total) => element("tr", {class: total && "total"}, element("th", {scope: "row"}, title), cells(pointer), share(pointer));
    put("roles", element("div", {class: "table"}, element("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Bytes by role"}, element("table", {},
        element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "role"), element("th", {scope: "col", class: "numeric"}, "needed"),
            usedTravels.map(({key, title}) => element("th", {scope: "col", class: "numeric"}, element("span", {class: `swatch ${key}`}), title)), element("td", {class: "share"}))),
        element("tbody", {}, roles.map((role) => row(name(role), `/roles/${step(role)}`, false)), roles.length > 1 ? row("all", "/total", true) : null)))));
}

// The axes that ranks can be coloured by, the most telling first.
function colourings() {
    const longer = Object.keys(axes).filter((axis) => sides.some((side) => side.places && side.layout[axis] > 1));
    return [...longer, "held"];
}

function drawScale(axis) {
    const title = axis === "held" ? "bytes held" : axes[axis].title;
    const ends = axis === "held" ? ["none", derived(Math.max(...sides.map((side) => largest(side.held))))] : ["first", "last"];
    put("scale-ends", element("span", {class: "unseen"}, `Scale of ${title}: `), ends[0], element("span", {class: "gradient", "aria-hidden": "true"}), ends[1]);
}

function drawSides(axis) {
    const cardsFit = largestRank <= 32;
    drawScale(axis);
    sides.forEach((side, index) => {
        const box = byId("sides").children[index].lastChild;
        box.replaceChildren();
        if (cardsFit) return box.append(cards(side, axis));
        const inner = element("div");
        box.append(inner);
        drawToWidth(inner, (width) => squares(side, axis, largestRank <= 1024, width));
    });
}

function showRanks() {
    const choices = colourings();
    const words = sides.every((side) => side.fitting) ?
        "A rank has the colour of its place in the layout, on one scale for both sides: where a host keeps its colours, it keeps its state." :
        "No layout says what the old ranks hold, so that they have no colour of their own.";
    put("ranks-words", words, sides.some((side) => side.seats.some((seat) => seat === null)) ? " Old ranks that are on no host any more stand last." : "");
    const chooser = element("select", {id: "colour-by", onchange: (event) => drawSides(event.target.value)},
        choices.map((axis) => element("option", {value: axis}, axis === "held" ? "bytes held" : axes[axis].title)));
    put("scale", element("label", {for: "colour-by", class: "on-screen"}, "Colour by "), element("span", {class: "on-screen"}, chooser), element("span", {id: "scale-ends", class: "scale-ends"}));
    put("sides", sides.map((side) => element("div", {class: "side"},
        element("h3", {}, side.title, element("span", {class: "muted"}, ` ${plural(side.count, side.noun)}`), side.layout ? element("code", {class: "muted"}, ` ${side.layout.text}`) : ""),
        element("div", {class: "side-figure"}))));
    drawSides(choices[0]);
}

function showClaims() {
    const {certificate} = data;
    const claims = [];
    const claim = (holds, title, ...words) => claims.push(element("li", {class: holds === null ? "given" : holds ? "holds" : "open"}, element("h3", {}, title), element("p", {}, words)));
    if (certificate.covered !== undefined)
        claim(certificate.covered, certificate.covered ? "Complete" : "Not complete", count("/certificate/elements"), " elements are written, ",
            certificate.covered ? "each from exactly one source." : "not each of them from exactly one source.");
    claim(certificate.minimal, certificate.minimal ? "Least movement" : "More than the bound", bytes("/certificate/between_hosts"), " come into hosts from elsewhere; ",
        "with ranks where they are, at least ", bytes("/certificate/between_hosts_bound"), " must: what hosts need and do not hold.");
    if (hosts.length > 1)
        claim(certificate.placement === "optimal" ? true : null, certificate.placement === "optimal" ? "Best placement" : "Given placement", certificate.placement === "optimal" ?
            `No other assignment of blocks of ranks to hosts${hosts.some((host) => host.spare) ? " that uses as few spare hosts" : ""} brings fewer bytes into hosts; dual prices prove it.` :
            "Ranks stand where they were pinned; other placements were not compared.");
    const {sending} = certificate;
    if (sending.hosts.length > 0) {
        const few = sending.hosts.slice(0, 6).map((host, index) => [index > 0 ? ", " : "", name(host, 32)]);
        claim(true, "Balanced senders", bytes("/certificate/sending/bytes"), " can come only from ", few,
            sending.hosts.length > 6 ? ` and ${countText(sending.hosts.length - 6)} more` : "", ", which takes ", sending.hosts.length > 1 ? "them" : "it",
            " at least ", seconds("/certificate/sending/seconds"), ". No choice of senders is done sooner.");
    }
    put("claims", claims);
    byId("claims").append(element("li", {class: "aside"}, element("p", {class: "muted small"}, element("code", {}, "tpx plan --check"),
        " proves a plan file anew with code that shares nothing with the planner; tpx-plan(5) says what is compared and assumed.")));
}

function rankTable(side) {
    return table({
        caption: `Ranks ${side.title.toLowerCase()} the change`,
        rows: side.seats.map((seat, rank) => rank),
        columns: [
            {title: "rank", cell: (rank) => String(rank), value: (rank) => rank},
            {title: "host", cell: (rank) => (side.seats[rank] ? name(hosts[side.seats[rank][0]].name, 48) : "none"), value: (rank) => side.seats[rank]?.[0] ?? -1},
            {title: "device", cell: (rank) => (side.seats[rank] ? String(side.seats[rank][1] ?? "store") : "–")},
            ...(side.places ? Object.keys(axes).filter((axis) => side.layout[axis] > 1) : []).map((axis) => (
                {title: axis, numeric: true, cell: (rank) => String(side.places[rank][axis]), value: (rank) => side.places[rank][axis]})),
            {title: "holds", numeric: true, cell: (rank) => bytes(`/${side.key}_bytes/${rank}`), value: (rank) => side.held[rank]},
        ],
    });
}

const hostTable = () => table({
    caption: "Hosts and what they do",
    rows: hosts.map((host, index) => index),
    columns: [
        {title: "host", cell: hostTitle, value: (index) => index},
        {title: "devices", numeric: true, cell: (index) => count(`/hosts/${index}/gpus`), value: (index) => hosts[index].gpus},
        ...(hosts.some((host) => host.switch) ? [{title: "switch", cell: (index) => name(hosts[index].switch, 48), value: (index) => hosts[index].switch}] : []),
        ...kinds.map((kind) => ({title: kind.title, numeric: true, cell: (index) => bytes(`/hosts/${index}/${kind.key}`), value: (index) => kind.values[index]})),
    ],
});

const flowTable = () => table({
    caption: "Flows, all transfers from one host to another together",
    rows: flows.map((flow, index) => index),
    columns: [
        {title: "from", cell: (index) => flows[index].from === null ? "shared storage" : name(hosts[flows[index].from].name, 48), value: (index) => flows[index].from ?? -1},
        {title: "to", cell: (index) => name(hosts[flows[index].to].name, 48), value: (index) => flows[index].to},
        {title: "bytes", numeric: true, cell: (index) => bytes(`/flows/${index}/bytes`), value: (index) => flows[index].bytes},
    ],
});

function saveData() {
    const link = element("a", {href: URL.createObjectURL(new Blob([JSON.stringify(data)], {type: "application/json"})), download: "plan.json"});
    link.click();
    URL.revokeObjectURL(link.href);
}

function showNumbers() {
    put("tables",
        folded(`Hosts (${countText(hosts.length)})`, hostTable),
        sides.map((side) => folded(`Ranks ${side.title.toLowerCase()} (${countText(side.count)})`, () => rankTable(side))),
        flows.length > 0 ? folded(`Flows between hosts (${countText(flows.length)})`, flowTable) : null,
        element("p", {}, element("button", {type: "button", class: "plain-button", onclick: saveData}, "Save as JSON")));
}

function showNotes() {
    if (data.notes.length === 0) return byId("notes").remove();
    put("notes-list", data.notes.map((note) => element("li", {}, name(note))));
}

function showContents() {
    const sections = [...document.querySelectorAll("main > section:not(#summary)")];
    put("contents", sections.map((section) => element("li", {}, element("a", {href: `#${section.id}`}, section.querySelector("h2").textContent))));
    put("made", `Made by ${document.querySelector("meta[name=generator]").content}.`);
}

for (const show of [showHead, showDegrees, showVerdict, showStack, showRoles, showRanks, showFlows, showLoads, showTime, showClaims, showNotes, showNumbers, showContents]) show();
document.documentElement.dataset.ready = "true";
