// SPDX-License-Identifier: Apache-2.0
// The plan as the figures need it: the position of each rank on the axes of a layout, and its host.
"use strict";

const axes = {
    pp: "pipeline stage",
    tp: "tensor part",
    ep: "block of experts",
    dp: "data-parallel rank",
    cp: "context part",
};

function orderOf(layout) {
    const text = layout.order ?? /order=([a-z-]+)/.exec(layout.text)?.[1] ?? "tp-cp-ep-dp-pp";
    return text.split("-");
}

// The coordinates of `rank` on a grid whose axes have `sizes`; the first axis of `order` changes fastest.
function digits(rank, order, sizes) {
    const place = {};
    for (const axis of order) {
        place[axis] = rank % sizes[axis];
        rank = Math.floor(rank / sizes[axis]);
    }
    return place;
}

// The position of `rank` on each axis. Experts have their own grid over the same ranks; see tpx-layout(5).
function placeOf(layout, rank) {
    const {tp, pp, dp, cp, ep, etp} = layout;
    const order = orderOf(layout);
    const place = digits(rank, order, {tp, pp, dp, cp, ep: 1});
    const alike = Math.max(1, Math.floor((tp * dp * cp) / (etp * ep)));
    place.ep = digits(rank, order, {tp: etp, pp, dp: alike, cp: 1, ep}).ep;
    return place;
}

// The part of all layers that each stage has, as [begin, end] from 0 to 1; equal parts unless the layout lists stages.
function stageSpans({text, pp, vpp}) {
    const listed = /stages=\[([0-9,]+)\]/.exec(text)?.[1].split(",").map(Number);
    const layers = listed && vpp === 1 ? listed : Array(pp).fill(1);
    const all = sum(layers);
    let begin = 0;
    return layers.map((count) => [begin / all, (begin += count) / all]);
}

// One side of the change: `seats` are [host, device] or null; `places` is null if no layout explains the ranks.
function makeSide(key, title, layout) {
    const seats = data[`${key}_ranks`];
    const side = {key, title, layout, seats, held: data[`${key}_bytes`], count: seats.length};
    // If the state is in the stores of hosts, each host counts as one old rank, whatever ranks wrote the state.
    side.stores = key === "old" && data.state === "stores" && seats.length === data.hosts.length &&
        seats.every((seat, index) => seat === null || (seat[0] === index && seat[1] === null));
    side.noun = side.stores ? "store" : "rank";
    side.fitting = !side.stores && layout !== null && layout.ranks === side.count;
    side.spans = side.fitting ? stageSpans(layout) : null;
    side.places = side.fitting ? seats.map((seat, rank) => placeOf(layout, rank)) : null;
    return side;
}

const hosts = data.hosts;
const sides = [makeSide("old", "Before", data.from.layout), makeSide("new", "After", data.to.layout)];
const largestRank = Math.max(...sides.map((side) => side.count));
const hostName = (host) => (host === null ? "shared storage" : shown(hosts[host].name));

// The devices of each host with the ranks on them, in the order of the hosts: {host, slots: [{device, rank}]}. A device
// without a rank has `rank` undefined; ranks in the store of a host have `device` null. Ranks on no host are on host -1.
function tilesOf(side) {
    const tiles = hosts.map((host, index) => ({host: index, slots: [], stored: []}));
    const nowhere = {host: -1, slots: [], stored: []};
    side.seats.forEach((seat, rank) => {
        if (seat === null) nowhere.slots.push({device: null, rank});
        else if (seat[1] === null) tiles[seat[0]].stored.push({device: null, rank});
        else (tiles[seat[0]].slots[seat[1]] ??= {device: seat[1], rank}).rank = rank;
    });
    for (const tile of tiles) {
        const devices = tile.stored.length > 0 ? tile.slots.length : hosts[tile.host].gpus;
        for (let device = 0; device < devices; ++device) tile.slots[device] ??= {device, rank: undefined};
        tile.slots.push(...tile.stored);
    }
    return nowhere.slots.length > 0 ? [...tiles, nowhere] : tiles;
}

// "pp 2  tp 0  dp 1": only axes that are longer than 1.
function placeText(side, rank) {
    if (!side.places) return "";
    return Object.keys(axes)
        .filter((axis) => side.layout[axis] > 1)
        .map((axis) => `${axis}\u00a0${side.places[rank][axis]}`)
        .join("  ");
}

// The text about a rank under the pointer.
function aboutRank(side, {rank, device}, host) {
    const part = device === null ? "in its store" : `device ${device}`;
    const where = host < 0 ? "no longer on a host" : `${hostName(host)}, ${part}`;
    if (rank === undefined) return [line(element("strong", {}, `${side.title}: no rank`)), line(where)];
    return [
        line(element("strong", {}, `${side.title}: ${side.noun} ${rank}`)),
        line(where),
        side.places && line(placeText(side, rank)),
        line("holds ", bytes(`/${side.key}_bytes/${rank}`)),
        host >= 0 && hosts.length > 1 &&
            line("its host sends ", bytes(`/hosts/${host}/nic_out`), ", receives ", bytes(`/hosts/${host}/nic_in`)),
    ].filter(Boolean);
}

const line = (...content) => element("div", {}, content);

// Lets all figures mark the same host.
const marked = {
    listeners: new Map(),
    host: undefined,
    listen(figure, listener) {
        this.listeners.set(figure, listener);
    },
    set(host) {
        if (host === this.host) return;
        this.host = host;
        for (const listener of this.listeners.values()) listener(host);
    },
};
