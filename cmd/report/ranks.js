// SPDX-License-Identifier: Apache-2.0
// Both sides of the change, and the choice of what their colors mean.
"use strict";

// The axes by which ranks can be colored, the most informative first.
function colorings() {
    const longer = Object.keys(axes).filter((axis) => sides.some((side) => side.places && side.layout[axis] > 1));
    return [...longer, "held"];
}

const coloringTitle = (axis) => (axis === "held" ? "bytes held" : axes[axis]);

function drawScale(axis) {
    const most = Math.max(...sides.map((side) => largest(side.held)));
    const [low, high] = axis === "held" ? ["none", derived(most)] : ["first", "last"];
    const title = element("span", {class: "unseen"}, `Scale of ${coloringTitle(axis)}: `);
    put("scale-ends", title, low, element("span", {class: "gradient", "aria-hidden": "true"}), high);
}

function drawSides(axis) {
    drawScale(axis);
    sides.forEach((side, index) => {
        const box = byId("sides").children[index].lastChild;
        if (largestRank <= 32) return box.replaceChildren(cards(side, axis));
        const inner = element("div");
        box.replaceChildren(inner);
        drawToWidth(inner, (width) => squares(side, axis, largestRank <= 1024, width));
    });
}

function ranksWords() {
    const [old] = sides;
    const words = [];
    if (sides.every((side) => side.fitting))
        words.push("The color of a rank is its place in the layout, on one scale for both sides:",
            "a host that keeps its colors keeps its state.");
    else if (old.stores)
        words.push("The state is in the stores of hosts; the color of a new rank is its place in the layout.");
    else
        words.push("The layout of the old ranks is unknown, so they have no color;",
            "the color of a new rank is its place in the layout.");
    if (old.seats.includes(null)) words.push(`Old ${old.noun}s that are no longer on a host come last.`);
    return words.join(" ");
}

function showRanks() {
    const choices = colorings();
    const options = choices.map((axis) => element("option", {value: axis}, coloringTitle(axis)));
    const chooser = {id: "color-by", class: "on-screen", onchange: (event) => drawSides(event.target.value)};
    put("ranks-words", ranksWords());
    put("scale",
        element("label", {for: "color-by", class: "on-screen"}, "Color by"),
        element("select", chooser, options),
        element("span", {id: "scale-ends", class: "scale-ends"}));
    put("sides", sides.map(({title, count, noun, layout}) => {
        const head = [title, element("span", {class: "muted"}, ` ${plural(count, noun)} `)];
        const text = layout ? element("code", {class: "muted", title: layout.text}, shortened(layout.text, 48)) : null;
        return element("div", {class: "side"},
            element("h3", {}, head, text),
            element("div", {class: "side-figure"}));
    }));
    drawSides(choices[0]);
}
