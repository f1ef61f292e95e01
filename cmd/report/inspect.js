// SPDX-License-Identifier: Apache-2.0
// A checkpoint: what it contains, which ranks or files store what of each tensor, and what is missing.
"use strict";

const {columns, rows, holes, files, totals} = data;
const total = sum(rows.map((row) => row.bytes));
const missing = sum(rows.map((row) => row.missing));
const replicas = sum(rows.map((row) => row.replicas));
const indices = (list) => list.map((unused, index) => index);
const columnName = (column) => (columns.kind === "rank" ? `rank ${columns.names[column]}` : columns.names[column]);

function showHead() {
    const title = data.path.split("/").filter(Boolean).at(-1) ?? data.path;
    document.title = `${shown(title)} – tpx inspect`;
    put("name", name(title, 120));
    put("path", name(data.path));
    byId("path").hidden = title === data.path;
    put("made", `Made by ${document.querySelector("meta[name=generator]").content}.`);
}

function showSummary() {
    put("verdict", holes.length === 0 ? "All parts of all tensors are stored" : [derived(missing), " of ", derived(total), " is missing"]);
    const facts = [
        ["format", data.variant ? `${data.format} (${data.variant})` : data.format],
        ["family", data.family ? `${data.family}, ${data.dialect} names` : "unknown"],
        ["layout", data.layout ? element("code", {}, data.layout.text) : "unknown"],
        data.iteration !== null && ["iteration", count("/iteration")],
        ["tensors", count("/tensors")],
        (data.opaque ?? []).length > 0 && ["quantized tensors", [derived(data.opaque.length, "count"), ", not shown below"]],
        ["size", derived(total)],
        ["files", derived(files.length, "count")],
        ["replicas", replicas > 0 ? derived(replicas) : "none"],
    ].filter(Boolean);
    put("facts", facts.map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value))));
}

function showTotals() {
    const column = (key, unit) => ({title: key, numeric: true, value: (index) => totals[index][key],
        cell: (index) => number(`/totals/${index}/${key}`, unit)});
    put("totals", table({caption: "Tensors by role and dtype", rows: indices(totals), columns: [
        {title: "role", value: (index) => totals[index].role, cell: (index) => name(totals[index].role)},
        {title: "dtype", value: (index) => totals[index].dtype, cell: (index) => totals[index].dtype},
        column("tensors", "count"), column("elements", "count"), column("bytes", "bytes"),
    ]}));
}

// The text about the parts of a row that the column under the pointer stores.
function aboutCell(row, column) {
    const [, first, again] = row.cells.find(([at]) => at === column) ?? [column, 0, 0];
    const parts = [first > 0 && [derived(first), " stored first"], again > 0 && [derived(again), " stored again"]].filter(Boolean);
    const words = parts.flatMap((part, index) => (index > 0 ? [", ", part] : [part]));
    return [element("div", {}, element("strong", {}, name(columnName(column), 60))),
        element("div", {}, words.length > 0 ? [words, ` of ${sizeText(row.bytes)}`] : "stores nothing of it")];
}

const storedOn = (row) => `${countText(row.cells.length)} of ${plural(columns.names.length, columns.each > 1 ? "column" : columns.kind)}${columns.each > 1 ? ` of ${columns.kind}s` : ""}`;

function strip(row) {
    const rect = ([column, first, again]) => drawn("rect", {x: column, y: 0, width: 1, height: 1, class: again > 0 && first === 0 ? "replica" : "first-copy"});
    const picture = drawn("svg", {viewBox: `0 0 ${columns.names.length} 1`, preserveAspectRatio: "none", class: "strip",
        role: "img", "aria-label": `stored by ${storedOn(row)}`, "shape-rendering": "crispEdges"}, row.cells.map(rect));
    picture.addEventListener("pointermove", (event) => {
        const box = picture.getBoundingClientRect();
        const column = Math.floor(((event.clientX - box.left) * columns.names.length) / box.width);
        tip.show(aboutCell(row, Math.max(0, Math.min(columns.names.length - 1, column))), event.clientX, event.clientY);
    });
    picture.addEventListener("pointerleave", () => tip.hide());
    return picture;
}

function showMap() {
    if (rows.length === 0) return byId("map").remove();
    const grouped = rows.some((row) => row.tensors > 1);
    put("map-words", `Each line is a tensor${grouped ? " or a group of tensors whose names differ only in numbers (*)" : ""}; `,
        `its bar has a column for ${columns.each > 1 ? `${columns.each} ${columns.kind}s` : `each ${columns.kind}`}, `,
        `${columnName(0)} first.`);
    const key = (kind, words) => element("span", {}, element("span", {class: `swatch ${kind}`}), words);
    put("keys", key("first", "stored"), replicas > 0 && key("again", "stored again (replica)"), key("none", "not stored here"));
    const shape = (row) => (row.shape ? `[${row.shape.join(", ")}]` : "several");
    put("rows", table({caption: "Tensors and where they are stored", rows: indices(rows), columns: [
        {title: "tensor", value: (index) => rows[index].name, cell: (index) => element("span", {class: "mono small"}, name(rows[index].name, 60))},
        grouped && {title: "tensors", numeric: true, value: (index) => rows[index].tensors, cell: (index) => number(`/rows/${index}/tensors`, "count")},
        {title: "role", value: (index) => rows[index].role, cell: (index) => rows[index].role},
        {title: "shape", cell: (index) => element("span", {class: "number"}, `${shape(rows[index])} ${rows[index].dtype}`)},
        {title: "size", numeric: true, value: (index) => rows[index].bytes, cell: (index) => number(`/rows/${index}/bytes`)},
        {title: `${columns.kind}s`, cell: (index) => strip(rows[index])},
        holes.length > 0 && {title: "missing", numeric: true, value: (index) => rows[index].missing,
            cell: (index) => (rows[index].missing > 0 ? element("span", {class: "hole"}, number(`/rows/${index}/missing`)) : "–")},
    ].filter(Boolean)}));
}

function showHoles() {
    if (holes.length === 0) return byId("holes").remove();
    const box = (index) => `[${holes[index].box.map(([begin, end]) => `${begin}:${end}`).join(", ")}]`;
    put("holes-table", table({caption: "Parts of tensors that are missing", rows: indices(holes), columns: [
        {title: "tensor", value: (index) => holes[index].tensor, cell: (index) => name(holes[index].tensor, 80)},
        {title: "part", cell: (index) => element("span", {class: "number"}, box(index))},
    ]}));
}

function showFiles() {
    const most = largest(columns.bytes);
    if (columns.kind === "rank")
        put("stored", table({caption: "Bytes of tensors that each rank stores, replicas included", rows: indices(columns.names), columns: [
            {title: "rank", value: (index) => index, cell: (index) => columns.names[index]},
            {title: "stores", numeric: true, value: (index) => columns.bytes[index],
                cell: (index) => barCell(bar(columns.bytes[index], most, "same_host"), number(`/columns/bytes/${index}`))},
        ]}));
    put("files", table({caption: "Files", rows: indices(files), columns: [
        {title: "file", value: (index) => files[index].path, cell: (index) => name(files[index].path, 80)},
        {title: "bytes", numeric: true, value: (index) => files[index].bytes, cell: (index) => number(`/files/${index}/bytes`)},
    ]}));
}

function showNotes() {
    if (data.notes.length === 0) return byId("notes").remove();
    put("notes-list", data.notes.map((note) => element("li", {}, name(note))));
}

showHead();
showSummary();
showTotals();
showMap();
showHoles();
showFiles();
showNotes();
document.documentElement.dataset.ready = "true";
