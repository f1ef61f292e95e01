// SPDX-License-Identifier: Apache-2.0
// Figures that users explore with the pointer and the arrow keys, and that adapt to the available width.
"use strict";

// A picture that screen readers skip; they read the label of the figure around it.
const pictureOf = (width, height, ...content) =>
    drawn("svg", {viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true"}, content);

const figureOf = (label, ...content) => element("div", {role: "group", "aria-label": label}, content);

// A box beside the pointer, or beside the item that was reached by keyboard; say() makes screen readers read it.
const tip = {
    show(content, x, y) {
        const box = byId("tip");
        box.replaceChildren(...[content].flat());
        box.hidden = false;
        const {offsetWidth: width, offsetHeight: height} = box;
        box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
        box.style.top = `${y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18}px`;
    },
    say() {
        byId("live").textContent = byId("tip").innerText.replaceAll("\n", ", ");
    },
    hide() {
        byId("tip").hidden = true;
    },
};

// Lets users explore a figure: `find(event)` returns the index of the item under the pointer or undefined; `show(item)`
// marks the item and returns {content, box} (undefined: marks nothing); arrow keys step through `count` items, and by
// `row` items up and down.
function explore(figure, {count, row = 1, find, show}) {
    let current;
    const leave = () => {
        current = undefined;
        show(undefined);
        tip.hide();
    };
    figure.tabIndex = 0;
    figure.addEventListener("pointermove", (event) => {
        const item = find(event);
        if (item === undefined) return leave();
        if (item !== current) current = item;
        tip.show(show(item).content, event.clientX, event.clientY);
    });
    figure.addEventListener("pointerleave", leave);
    figure.addEventListener("blur", leave);
    figure.addEventListener("keydown", (event) => {
        const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, Home: -Infinity, End: Infinity};
        const by = steps[event.key];
        if (event.key === "Escape") return leave();
        if (by === undefined || count === 0) return;
        event.preventDefault();
        const next = current === undefined && Number.isFinite(by) ? 0 : (current ?? 0) + by;
        current = Math.max(0, Math.min(count - 1, next));
        const {content, box} = show(current);
        const {left, bottom} = box();
        tip.show(content, left, bottom - 12);
        tip.say();
    });
}

// Round numbers from 0 to the first that is at least `most`, at most six.
function roundLevels(most) {
    const power = 10 ** Math.floor(Math.log10(most));
    const step = [0.2, 0.5, 1, 2].map((part) => part * power).find((step) => most / step <= 5 + 1e-9);
    return Array.from({length: Math.ceil(most / step - 1e-9) + 1}, (unused, index) => Number((index * step).toPrecision(12)));
}

// The unit in which a time axis with marks up to `most` seconds, `step` seconds apart, has short labels: [seconds, name].
const axisUnit = (most, step = most) =>
    [[86400, "d", 20], [3600, "h", 2], [60, "min", 2]].find(([size, , least]) => step >= size && most >= least * size) ?? [1, "s"];

// Calls `draw(width)` now, and whenever the width of `box` changes.
function drawToWidth(box, draw) {
    let width = 0;
    const redraw = () => {
        const now = Math.floor(box.clientWidth);
        if (now === width || now === 0) return;
        width = now;
        box.replaceChildren(draw(width));
    };
    // Not immediately: drawing can add a scroll bar, which changes the width again within the same notification.
    new ResizeObserver(() => requestAnimationFrame(redraw)).observe(box);
    redraw();
}

// The position of `event` on `picture`, in the units of its viewBox.
function pointIn(picture, event) {
    const box = picture.getBoundingClientRect();
    const scale = picture.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

// A frame that place() puts around something, or hides.
const frameOf = (width, height, kind) => drawn("rect", {class: kind, visibility: "hidden", width, height});

function place(frame, corner, margin) {
    frame.setAttribute("visibility", corner ? "visible" : "hidden");
    if (!corner) return;
    frame.setAttribute("x", corner[0] - margin);
    frame.setAttribute("y", corner[1] - margin);
}
