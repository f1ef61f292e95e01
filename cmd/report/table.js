// SPDX-License-Identifier: Apache-2.0
// Tables: a click on a column head sorts them; long tables are shown in parts.
"use strict";

const rowHead = (...content) => element("th", {scope: "row"}, content);
const columnHead = (content, numeric) => element("th", {scope: "col", class: numeric && "numeric"}, content);
const numeric = (...content) => element("td", {class: "numeric"}, content);

// A table of `rows`. A column has a `title`, `cell(row)`, which makes the content, and, if it can be sorted,
// `value(row)`, by which it is sorted. Cells of the first column are row heads. Columns of numbers are `numeric`.
function table({caption, columns, rows, part = 100}) {
    let order = rows;
    let limit = part;
    const body = element("tbody");
    const more = element("button", {type: "button", class: "more", onclick: () => grow(part * 10)});
    const all = element("button", {type: "button", class: "more", onclick: () => grow(rows.length)});
    const controls = element("p", {class: "controls"}, more, all);

    const line = (row) => {
        const [first, ...rest] = columns;
        const cell = (column) => element("td", {class: column.numeric && "numeric"}, column.cell(row));
        return element("tr", {}, rowHead(first.cell(row)), rest.map(cell));
    };
    const refresh = () => {
        body.replaceChildren(...order.slice(0, limit).map(line));
        update();
    };
    const update = () => {
        const left = rows.length - limit;
        controls.hidden = left <= 0;
        more.hidden = left <= part * 10;
        more.textContent = `Show ${countText(part * 10)} more`;
        all.textContent = `Show all ${countText(rows.length)}`;
    };
    const grow = (by) => {
        const begin = limit;
        limit = Math.min(rows.length, limit + by);
        body.append(...order.slice(begin, limit).map(line));
        update();
    };
    const sorted = (column, head) => {
        const before = head.getAttribute("aria-sort");
        const falling = before ? before === "ascending" : Boolean(column.numeric);
        for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
        order = [...rows].sort((a, b) => compare(column.value(a), column.value(b)) * (falling ? -1 : 1));
        refresh();
    };
    const heads = columns.map((column) => {
        if (!column.value || rows.length < 2) return columnHead(column.title, column.numeric);
        const button = element("button", {type: "button", onclick: () => sorted(column, head)}, column.title);
        const head = columnHead(button, column.numeric);
        return head;
    });
    refresh();
    const scroll = element("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
        element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, heads)), body));
    return element("div", {class: "table"}, scroll, controls);
}

// A folded table, which is made when it is first opened.
function folded(title, make) {
    const details = element("details", {}, element("summary", {}, title));
    details.addEventListener("toggle", () => {
        if (details.open && details.childElementCount === 1) details.append(make());
    });
    return details;
}

// A bar that fills `part` / `whole` of its space. Screen readers skip it, because the text beside it has the same number.
function bar(part, whole, kind) {
    const inner = element("span", {class: `bar-fill ${kind}`});
    inner.style.width = `${(100 * part) / whole}%`;
    return element("span", {class: "bar", "aria-hidden": "true"}, part > 0 ? inner : null);
}

// A bar, and the number that it represents.
const barCell = (made, number) => element("div", {class: "load"}, made, number);
