# SPDX-License-Identifier: Apache-2.0
"""What the browser is asked about a page: JavaScript expressions."""

NUMBERS = """[...document.querySelectorAll("[data-at]")].map((node) =>
    [node.dataset.at, node.dataset.value, node.dataset.unit, node.textContent])"""

# Opens all that is folded, and waits for what is made then.
UNFOLD = """new Promise((done) => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    setTimeout(done, 100);
})"""
UNFOLD_ALL = f"""{UNFOLD}.then(() => {{
    for (const controls of document.querySelectorAll(".controls:not([hidden])")) controls.lastChild.click();
}})"""

# Ranks on each side: cards, or the squares of all paths that are no outlines.
DRAWN = """[...document.querySelectorAll(".side")].map((side) => side.querySelectorAll(".card:not(.empty)").length ||
    [...side.querySelectorAll("path:not(.idle)")].reduce((count, path) => count + path.getAttribute("d").split("M").length - 1, 0))"""

# The middle of the first square of the new ranks that is not idle; nothing where ranks are cards.
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

# Contrast as WCAG 2 has it, of text against what is behind it; what is below 4.5.
CONTRASTS = """(() => {
    const channels = (colour) => {
        const hex = /^#(..)(..)(..)$/.exec(colour);
        return hex ? hex.slice(1).map((part) => parseInt(part, 16)) : colour.match(/[0-9.]+/g).map(Number);
    };
    const light = (colour) => channels(colour).slice(0, 3)
        .map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
        .reduce((total, value, k) => total + value * [0.2126, 0.7152, 0.0722][k], 0);
    const contrast = (a, b) => {
        const [low, high] = [light(a), light(b)].sort((p, q) => p - q);
        return (high + 0.05) / (low + 0.05);
    };
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (channels(colour)[3] !== 0) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const faults = new Map();
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const node = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || node.closest("script, noscript, select, .on-square") || !node.checkVisibility()) continue;
        const style = getComputedStyle(node);
        const found = contrast(node.ownerSVGElement ? style.fill : style.color, behind(node));
        if (found < 4.5) faults.set(node.className || node.tagName, [found, walk.currentNode.data.slice(0, 40)]);
    }
    palette.forEach((colour, index) => {
        const found = contrast(inkOn(index), colour);
        if (found < 4.5) faults.set(colour, [found, `a number on ${colour}`]);
    });
    return [...faults.values()];
})()"""

# Elements that can have the focus and that nothing names.
UNNAMED = """[...document.querySelectorAll("[tabindex], a, button, select, summary")]
    .filter((node) => !node.getAttribute("aria-label") && !node.innerText.trim() && !document.querySelector(`label[for="${node.id}"]`))
    .map((node) => node.outerHTML.slice(0, 80))"""

# The figures that arrow keys explore, by number.
FIGURES = """(() => {
    window.explored = [...document.querySelectorAll("[role=group]")];
    return explored.map((figure, index) => index);
})()"""

# What is wrong with headings, tables, links, and with elements that only names from outside could have made.
STRUCTURE = """(() => {
    const faults = [];
    let level = 0;
    for (const head of document.querySelectorAll("h1, h2, h3, h4")) {
        const next = Number(head.tagName[1]);
        if (next > level + 1) faults.push(`heading '${head.textContent.slice(0, 40)}' skips a level`);
        if (!head.textContent.trim()) faults.push("a heading is empty");
        level = next;
    }
    if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
    for (const table of document.querySelectorAll("table"))
        if (!table.caption && !table.parentElement.getAttribute("aria-label")) faults.push("a table has no name");
    for (const link of document.querySelectorAll("a[href^='#']"))
        if (!document.getElementById(link.hash.slice(1))) faults.push(`${link.hash} leads nowhere`);
    const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
    if (new Set(ids).size !== ids.length) faults.push("two elements have one id");
    for (const node of document.querySelectorAll("svg, svg g"))
        if ([...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE)) faults.push("text that is not drawn");
    for (const figure of document.querySelectorAll("[role=group]"))
        if (figure.tabIndex !== 0) faults.push(`no key leads to '${figure.getAttribute("aria-label")}'`);
    if (/[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028-\\u202e]/.test(document.body.innerText)) faults.push("signs that nobody sees");
    if (document.scripts.length !== 2) faults.push(`${document.scripts.length} scripts`);
    if (document.querySelector("img, iframe, object, embed, link:not([rel=icon]), base, form")) faults.push("an element that the page does not have");
    if (document.querySelector("[onerror], [onclick], [onload]")) faults.push("an element with a script of its own");
    if (/undefined|NaN|null|Infinity|\\[object/.test(document.body.innerText)) faults.push("a value that is none: " + /.{0,30}(undefined|NaN|null|Infinity|\\[object).{0,20}/.exec(document.body.innerText)[0]);
    return faults;
})()"""
