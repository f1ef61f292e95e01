// SPDX-License-Identifier: Apache-2.0
// Shared by all reports: the data, numbers as text, and elements. Text from the data becomes text nodes and attribute
// values only, never markup.
"use strict";

// Shows errors of scripts on the page, where people and tests see them.
addEventListener("error", (event) => {
    document.documentElement.dataset.fault = event.message;
    document.body.prepend(element("p", {class: "fault", role: "alert"}, `This page is faulty: ${event.message}`));
});

const data = JSON.parse(document.getElementById("data").textContent);

// The value at a JSON pointer (RFC 6901), undefined if there is none.
function at(pointer) {
    let value = data;
    for (const step of pointer.split("/").slice(1))
        value = value?.[step.replaceAll("~1", "/").replaceAll("~0", "~")];
    return value;
}

const step = (key) => key.replaceAll("~", "~0").replaceAll("/", "~1");
const sum = (list) => list.reduce((total, value) => total + value, 0);
const largest = (list) => list.reduce((most, value) => Math.max(most, value), 0);
const plural = (count, noun) => `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;

// Names come from untrusted files: shows characters that are invisible or change the direction of text as escapes.
function shown(name) {
    const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
    if (name === "") return "(no name)";
    return String(name).replace(hidden, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

// `text`, a result of shown(), without its middle if it is longer than `length`.
function shortened(text, length) {
    const signs = [...text];
    if (signs.length <= length) return text;
    const head = Math.ceil((length - 1) / 2);
    return `${signs.slice(0, head).join("")}…${signs.slice(signs.length - (length - 1 - head)).join("")}`;
}

// Like printf: toFixed(), but ties are rounded to even.
function fixed(value, decimals) {
    const rounded = value.toFixed(decimals);
    const exact = value.toFixed(60);
    const cut = exact.length - 60 + decimals;
    if (!/^50*$/.test(exact.slice(cut))) return rounded;
    const lower = decimals > 0 ? exact.slice(0, cut) : exact.slice(0, -61);
    return Number(lower.at(-1)) % 2 === 0 ? lower : rounded;
}

const decimals = (value) => (value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

// The texts that tpx prints for sizes, rates and times, character for character.
function sizeText(bytes) {
    if (bytes < 999.5) return `${fixed(bytes, 0)} B`;
    let power = 0;
    for (bytes /= 1000; bytes >= 999.5 && power < 5; bytes /= 1000) ++power;
    return `${fixed(bytes, decimals(bytes))} ${"kMGTPE"[power]}B`;
}

const rateText = (rate) => `${sizeText(rate)}/s`;

function timeText(seconds) {
    if (seconds === null) return "-";  // nothing was measured
    if (seconds <= 0) return "0 s";
    if (seconds < 0.9995e-3) return `${fixed(seconds * 1e6, decimals(seconds * 1e6))} us`;
    if (seconds < 0.9995) return `${fixed(seconds * 1e3, decimals(seconds * 1e3))} ms`;
    if (seconds < 119.5) return `${fixed(seconds, decimals(seconds))} s`;
    const two = (number) => String(number).padStart(2, "0");
    const whole = Math.round(seconds);
    if (whole < 7200) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
    const minutes = Math.round(seconds / 60);
    return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
}

const verb = (count, plain) => (count === 1 ? `${plain}s` : plain);
const countText = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

function percentText(part, whole) {
    if (whole === 0 || part === 0) return "0 %";
    const percent = (100 * part) / whole;
    if (percent < 0.1) return "< 0.1 %";
    if (percent > 99.9 && part < whole) return "> 99.9 %";
    return `${percent < 9.95 || (percent > 90 && part < whole) ? percent.toFixed(1) : Math.round(percent)} %`;
}

const texts = {bytes: sizeText, rate: rateText, seconds: timeText, count: countText};

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
        else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

const element = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const drawn = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = (id) => document.getElementById(id);
const put = (id, ...children) => byId(id).replaceChildren(fill(document.createDocumentFragment(), {}, children));

// A name from the data, isolated so that it keeps its own text direction.
const name = (text, length = Infinity) => {
    const whole = shown(text);
    const short = shortened(whole, length);
    return element("bdi", {title: short === whole ? null : whole}, short);
};

// The number at `pointer` as text. All numbers from the data are shown with this function, so that the pointer and the
// exact value can be read back from the page.
function number(pointer, unit = "bytes", tag = element) {
    const value = at(pointer);
    const attributes = {class: "number", "data-at": pointer, "data-value": value, "data-unit": unit};
    const exact = unit === "bytes" ? `${countText(value)} bytes` : null;
    if (tag === element) return element("span", {...attributes, title: exact}, texts[unit](value));
    return drawn("tspan", attributes, texts[unit](value));
}

const bytes = (pointer) => number(pointer, "bytes");
const count = (pointer) => number(pointer, "count");
const seconds = (pointer) => number(pointer, "seconds");

// Shows the times at `pointers`, which are a column of a table, in one unit: that of the largest, or the next smaller one if
// the smallest would be less than a tenth.
function timeColumn(pointers) {
    const times = pointers.map((pointer) => at(pointer) ?? 0).filter((value) => value > 0);
    const most = largest(times);
    const least = times.reduce((all, value) => Math.min(all, value), most);
    const units = [[1, "s"], [60, "min"], [3600, "h"]];
    const suiting = most < 119.5 ? 0 : most < 7200 ? 1 : 2;
    const [size, unit] = units[suiting > 0 && least < 0.1 * units[suiting][0] ? suiting - 1 : suiting];
    const digits = (value) => (value > 0 ? 1 + Math.floor(Math.log10(value / size)) : 1);
    const wanted = Math.min(3, Math.max(0, 4 - digits(most), 2 - digits(least)));
    const decimals = Math.min(wanted, Math.max(0, 6 - digits(most)));
    return (pointer) => {
        const value = at(pointer);
        const text = value === null ? "-" : `${(value / size).toFixed(decimals)} ${unit}`;
        return element("span", {class: "number", "data-at": pointer, "data-value": value, "data-unit": "column"}, text);
    };
}

// A number that is computed from several numbers in the data.
const derived = (value, unit = "bytes") => element("span", {class: "number", "data-value": value}, texts[unit](value));
