# SPDX-License-Identifier: Apache-2.0
"""JavaScript expressions that the browser evaluates on a page."""

NUMBERS = """[...document.querySelectorAll("[data-at]")].map((node) =>
    [node.dataset.at, node.dataset.value, node.dataset.unit, node.textContent])"""

# Opens all folded parts, and waits until their content is created.
UNFOLD = """new Promise((done) => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    setTimeout(done, 100);
})"""
UNFOLD_ALL = f"""{UNFOLD}.then(() => {{
    for (const controls of document.querySelectorAll(".controls:not([hidden])")) controls.lastChild.click();
}})"""

# The number of ranks on each side: cards, or the squares of all paths that are not outlines.
DRAWN = """(() => {
    const squares = (path) => path.getAttribute("d").split("M").length - 1;
    return [...document.querySelectorAll(".side")].map((side) => side.querySelectorAll(".card:not(.empty)").length ||
        [...side.querySelectorAll("path:not(.idle)")].reduce((count, path) => count + squares(path), 0));
})()"""


def color_by(axis):
    """Chooses the meaning of colors; returns how many ranks are then drawn."""
    return f"""(() => {{
        const chooser = document.getElementById("color-by");
        chooser.value = "{axis}";
        chooser.dispatchEvent(new Event("change"));
        return {DRAWN};
    }})()"""


# Sorts the table of hosts by the bytes that they send; returns the numbers of that column.
SORTED = """(() => {
    const details = [...document.querySelectorAll("details")].find((each) => each.textContent.startsWith("Hosts"));
    const heads = [...details.querySelectorAll("thead th")];
    const column = heads.findIndex((head) => head.textContent === "sends");
    (heads[column].querySelector("button") ?? heads[column]).click();
    return [...details.querySelectorAll("tbody tr")].map((row) =>
        Number(row.children[column].querySelector(".number").dataset.value));
})()"""

# The middle of the first square of the new ranks that is not idle; null if ranks are cards.
SPOT = """(() => {
    const path = document.querySelector(".side:last-child .squares path:not(.idle)");
    if (!path) return null;
    const picture = path.ownerSVGElement;
    picture.scrollIntoView({block: "start", behavior: "instant"});
    const tiles = tilesOf(sides[1]);
    const index = tiles.findIndex((tile) => tile.slots[0]?.rank !== undefined);
    const box = picture.getBoundingClientRect();
    const numbered = largestRank <= 1024;
    const [x, y] = geometry(tiles, picture.viewBox.baseVal.width, numbered).square(index, 0);
    return [box.left + x + 2, box.top + y + 2];
})()"""

# Texts whose contrast with their background, as defined by WCAG 2, is below 4.5.
CONTRASTS = """(() => {
    const channels = (color) => {
        const hex = /^#(..)(..)(..)$/.exec(color);
        return hex ? hex.slice(1).map((part) => parseInt(part, 16)) : color.match(/[0-9.]+/g).map(Number);
    };
    const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const light = (color) => {
        const [red, green, blue] = channels(color).map((value) => linear(value / 255));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const contrast = (a, b) => {
        const [low, high] = [light(a), light(b)].sort((p, q) => p - q);
        return (high + 0.05) / (low + 0.05);
    };
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const color = getComputedStyle(node).backgroundColor;
            if (channels(color)[3] !== 0) return color;
        }
        return "rgb(255, 255, 255)";
    };
    const faults = new Map();
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const node = walk.currentNode.parentElement;
        if (node.closest("script, noscript, select, .on-square") || !node.checkVisibility()) continue;
        if (!walk.currentNode.data.trim()) continue;
        const style = getComputedStyle(node);
        const found = contrast(node.ownerSVGElement ? style.fill : style.color, behind(node));
        if (found < 4.5) faults.set(node.className || node.tagName, [found, walk.currentNode.data.slice(0, 40)]);
    }
    if (typeof palette !== "undefined")  // of plans
        palette.forEach((color, index) => {
            const found = contrast(inkOn(index), color);
            if (found < 4.5) faults.set(color, [found, `a number on ${color}`]);
        });
    return [...faults.values()];
})()"""

# Elements that can have the focus but have no name.
UNNAMED = """[...document.querySelectorAll("[tabindex], a, button, select, summary")]
    .filter((node) => !node.getAttribute("aria-label") && !node.innerText.trim())
    .filter((node) => !document.querySelector(`label[for="${node.id}"]`))
    .map((node) => node.outerHTML.slice(0, 80))"""

# The figures that arrow keys explore, by number.
FIGURES = """(() => {
    window.explored = [...document.querySelectorAll("[role=group]")];
    return explored.map((figure, index) => index);
})()"""

# Faults of headings, tables and links, and elements that only injected names could have created.
STRUCTURE = """(() => {
    const faults = [];
    const all = (selector) => [...document.querySelectorAll(selector)];
    const fault = (holds, text) => {
        if (holds) faults.push(text);
    };
    let level = 0;
    for (const head of all("h1, h2, h3, h4")) {
        const next = Number(head.tagName[1]);
        fault(next > level + 1, `heading '${head.textContent.slice(0, 40)}' skips a level`);
        fault(!head.textContent.trim(), "a heading is empty");
        level = next;
    }
    fault(all("h1").length !== 1, "not one h1");
    for (const table of all("table"))
        fault(!table.caption && !table.parentElement.getAttribute("aria-label"), "a table has no name");
    for (const link of all("a[href^='#']"))
        fault(!document.getElementById(link.hash.slice(1)), `${link.hash} leads nowhere`);
    const ids = all("[id]").map((node) => node.id);
    fault(new Set(ids).size !== ids.length, "two elements have one id");
    for (const node of all("svg, svg g"))
        fault([...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE), "text that is not drawn");
    for (const figure of all("[role=group]"))
        fault(figure.tabIndex !== 0, `no key leads to '${figure.getAttribute("aria-label")}'`);
    const text = document.body.innerText;
    const hidden = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028-\\u202e]/;
    fault(hidden.test(text), "signs that nobody sees");
    const none = /.{0,30}(undefined|NaN|null|Infinity|\\[object).{0,20}/.exec(text);
    fault(none, `a value that is none: ${none?.[0]}`);
    fault(document.scripts.length !== 2, `${document.scripts.length} scripts`);
    const foreign = "img, iframe, object, embed, link:not([rel=icon]), base, form, [onerror], [onclick], [onload]";
    fault(document.querySelector(foreign), "an element that the page does not have");
    return faults;
})()"""
