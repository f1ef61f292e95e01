// SPDX-License-Identifier: Apache-2.0
// Ranks on hosts: cards for few ranks, squares with numbers for more, and squares without numbers for many.
"use strict";

// From dark blue to light sand; lightness rises evenly, so that the colors remain distinguishable in grayscale.
const ramp = ["#3d4a95", "#33659f", "#32819f", "#469b98", "#70b48f", "#a5ca87", "#dddc90"];
const shades = 28;

function shade(share) {
    const place = Math.min(0.9999, Math.max(0, share)) * (ramp.length - 1);
    const [low, high] = [ramp[Math.floor(place)], ramp[Math.floor(place) + 1]];
    const channel = (k) => {
        const [a, b] = [low, high].map((color) => parseInt(color.slice(k, k + 2), 16));
        return Math.round(a + (b - a) * (place % 1)).toString(16).padStart(2, "0");
    };
    return `#${channel(1)}${channel(3)}${channel(5)}`;
}

const palette = Array.from({length: shades}, (unused, index) => shade(index / (shades - 1)));
const inkOn = (index) => (index > shades * 0.31 ? "#000000" : "#ffffff");
const unknown = "var(--kept)";

// The index of a rank's color: its position on `axis`, on one scale for both sides, so that ranks of equal color hold
// equal parts; or how much it holds. -1: unknown.
function shadeOf(side, rank, axis) {
    const last = shades - 1;
    if (axis === "held") {
        const most = Math.max(largest(sides[0].held), largest(sides[1].held));
        return most > 0 ? Math.round((side.held[rank] / most) * last) : -1;
    }
    if (!side.places) return -1;
    const at = side.places[rank][axis];
    const middle = axis === "pp" ? (side.spans[at][0] + side.spans[at][1]) / 2 : (at + 0.5) / side.layout[axis];
    return Math.min(last, Math.floor(middle * shades));
}

// A small picture of the model, with stages from top to bottom and tensor parts from left to right, that shows what
// `rank` holds.
function glyph(side, rank, fillColor) {
    const {tp, vpp = 1, fsdp = 1} = side.layout;
    const place = side.places[rank];
    const size = 36;
    const width = size / tp / fsdp;
    const x = (place.tp / tp) * size + (place.dp % fsdp) * width;
    const [begin, end] = side.spans[place.pp];
    const chunk = size / vpp;
    const extent = {width: Math.max(width, 1), height: Math.max((end - begin) * chunk, 1)};
    const parts = Array.from({length: vpp}, (unused, number) =>
        drawn("rect", {x, y: (number + begin) * chunk, ...extent, fill: fillColor}));
    const picture = pictureOf(size, size, drawn("rect", {class: "glyph-back", width: size, height: size}), parts);
    picture.classList.add("glyph");
    return picture;
}

// Whether a device is lost, on its own or with its host.
function isLost(host, device) {
    return host >= 0 && (hosts[host].lost || (hosts[host].lost_devices ?? []).includes(device));
}

function card(side, host, slot, axis) {
    if (slot.rank === undefined)
        return element("li", {class: "card empty muted small"}, isLost(host, slot.device) ? "lost" : "idle");
    const index = shadeOf(side, slot.rank, axis);
    const color = index < 0 ? unknown : palette[index];
    const picture = side.places ? glyph(side, slot.rank, color) : null;
    return element("li", {class: "card"}, picture, element("div", {},
        element("div", {class: "card-rank"}, side.stores ? "store" : `rank ${slot.rank}`),
        element("div", {class: "small"}, bytes(`/${side.key}_bytes/${slot.rank}`)),
        element("div", {class: "small muted"}, placeText(side, slot.rank))));
}

function badges(host) {
    if (host < 0) return [];
    return ["lost", "spare"].filter((word) => hosts[host][word]).map((word) => element("span", {class: "badge"}, word));
}

function cards(side, axis) {
    return element("div", {class: "hosts"}, tilesOf(side).map((tile) => {
        const title = tile.host < 0 ? "no longer on a host" : name(hosts[tile.host].name, 48);
        const idle = tile.slots.every(({rank}) => rank === undefined);
        const box = element("section", {class: "host", "data-host": tile.host},
            element("h4", {}, title, badges(tile.host)),
            idle ? element("p", {class: "muted small"}, `${plural(tile.slots.length, "device")}, no rank`) :
                element("ul", {class: "cards"}, tile.slots.map((slot) => card(side, tile.host, slot, axis))));
        box.addEventListener("pointerenter", () => marked.set(tile.host));
        box.addEventListener("pointerleave", () => marked.set(undefined));
        return box;
    }));
}

// How squares are arranged in tiles, and tiles in the figure.
function geometry(tiles, width, numbered) {
    const most = largest(tiles.map((tile) => tile.slots.length));
    const [cell, gap, pad, head] = numbered ? [26, 2, 14, 17] : tiles.length > 600 ? [4, 1, 4, 0] : [6, 1, 5, 0];
    const widest = Math.max(1, Math.floor((width + gap) / (cell + gap)));
    const columns = Math.min(widest, most, most <= 4 ? most : most <= 8 ? 4 : most <= 64 ? 8 : 32);
    const tileWidth = columns * (cell + gap) - gap;
    const tileHeight = head + Math.ceil(most / columns) * (cell + gap) - gap;
    const across = Math.max(1, Math.floor((width + pad) / (tileWidth + pad)));
    const corner = (index) => [(index % across) * (tileWidth + pad), Math.floor(index / across) * (tileHeight + pad)];
    return {
        cell, gap, head, columns, across, tileWidth, tileHeight, corner,
        height: Math.ceil(tiles.length / across) * (tileHeight + pad) - pad,
        square(index, slot) {
            const [x, y] = corner(index);
            return [x + (slot % columns) * (cell + gap), y + head + Math.floor(slot / columns) * (cell + gap)];
        },
        // The tile and slot at a point, or undefined.
        hit(x, y) {
            const index = Math.floor(y / (tileHeight + pad)) * across + Math.floor(x / (tileWidth + pad));
            if (x < 0 || y < 0 || x >= across * (tileWidth + pad) || !tiles[index]) return undefined;
            const [left, top] = corner(index);
            const column = Math.floor((x - left) / (cell + gap));
            const slot = Math.floor((y - top - head) / (cell + gap)) * columns + column;
            return column < columns && tiles[index].slots[slot] ? [index, slot] : undefined;
        },
    };
}

// One path for each color, for any number of squares.
function squarePaths(side, tiles, plan, axis) {
    const paths = new Map();
    const outline = {idle: "", lost: ""};
    const square = ([x, y], size) => `M${x} ${y}h${size}v${size}h-${size}z`;
    tiles.forEach((tile, index) => tile.slots.forEach(({rank}, slot) => {
        const corner = plan.square(index, slot);
        if (rank === undefined) {
            const kind = isLost(tile.host, tile.slots[slot].device) ? "lost" : "idle";
            outline[kind] += square([corner[0] + 0.5, corner[1] + 0.5], plan.cell - 1);
            return;
        }
        const color = shadeOf(side, rank, axis);
        paths.set(color, (paths.get(color) ?? "") + square(corner, plan.cell));
    }));
    return [
        drawn("path", {class: "idle", d: outline.idle}),
        drawn("path", {class: "idle lost", d: outline.lost}),
        [...paths].map(([color, d]) => drawn("path", {d, style: `fill: ${color < 0 ? unknown : palette[color]}`})),
    ];
}

function labels(side, tiles, plan, axis) {
    const fits = Math.floor(plan.tileWidth / 6.6);
    return tiles.flatMap((tile, index) => {
        const [x, y] = plan.corner(index);
        const lost = tile.host >= 0 && hosts[tile.host].lost ? " lost" : "";
        const title = tile.host < 0 ? "on no host" : shortened(hostName(tile.host), fits - lost.length) + lost;
        const numbers = tile.slots.map(({rank}, slot) => {
            if (rank === undefined) return null;
            const [left, top] = plan.square(index, slot);
            const color = shadeOf(side, rank, axis);
            const style = color < 0 ? null : `fill: ${inkOn(color)}`;
            const middle = {x: left + plan.cell / 2, y: top + plan.cell / 2 + 4};
            return drawn("text", {...middle, class: "on-square", style}, rank);
        });
        return [drawn("text", {x, y: y + 11, class: "muted"}, title), numbers];
    });
}

function exploreSquares(figure, picture, side, tiles, plan, frame, cursor) {
    const listed = tiles.flatMap((tile, index) => tile.slots.map((unused, slot) => [index, slot]));
    const starts = [];
    listed.forEach(([index], item) => (starts[index] ??= item));
    marked.listen(side.key, (host) => {
        const index = tiles.findIndex((tile) => tile.host === host);
        const [x, y] = plan.corner(Math.max(0, index));
        place(frame, index < 0 ? undefined : [x, y + plan.head], 2);
    });
    explore(figure, {
        count: listed.length,
        row: plan.columns,
        find(event) {
            const hit = plan.hit(...pointIn(picture, event));
            return hit && starts[hit[0]] + hit[1];
        },
        show(item) {
            const [index, slot] = listed[item] ?? [];
            place(cursor, item === undefined ? undefined : plan.square(index, slot), 1);
            marked.set(tiles[index]?.host);
            if (item === undefined) return undefined;
            const content = aboutRank(side, tiles[index].slots[slot], tiles[index].host);
            return {content, box: () => cursor.getBoundingClientRect()};
        },
    });
}

// All ranks of a side as squares, `numbered` or not.
function squares(side, axis, numbered, width) {
    const tiles = tilesOf(side);
    const plan = geometry(tiles, width, numbered);
    const frame = frameOf(plan.tileWidth + 4, plan.tileHeight - plan.head + 4, "frame");
    const cursor = frameOf(plan.cell + 2, plan.cell + 2, "cursor");
    const picture = pictureOf(width, plan.height, squarePaths(side, tiles, plan, axis),
        numbered ? labels(side, tiles, plan, axis) : null, frame, cursor);
    const figure = figureOf(
        `${side.title}: ${plural(side.count, side.noun)} on hosts. The arrow keys go from device to device.`, picture);
    figure.classList.add("squares");
    exploreSquares(figure, picture, side, tiles, plan, frame, cursor);
    return figure;
}
