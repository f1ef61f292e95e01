// SPDX-License-Identifier: Apache-2.0
// What the plan's certificate claims, in words.
"use strict";

// `holds`: true, false, or null for a property that was given and not compared.
function claim(holds, title, ...words) {
    const kind = holds === null ? "given" : holds ? "holds" : "open";
    return element("li", {class: kind}, element("h3", {}, title), element("p", {}, words));
}

function coverageClaim({covered}) {
    if (covered === undefined) return null;
    return claim(covered, covered ? "Complete" : "Not complete", count("/certificate/elements"),
        ` elements are written, ${covered ? "each" : "not each of them"} from exactly one source.`);
}

function movementClaim({minimal, placement}) {
    const compared = placement === "groups" ? "wherever whole TP groups are placed" : "with ranks where they are";
    return claim(minimal, minimal ? "Least movement" : "More than the bound",
        bytes("/certificate/between_hosts"), ` come into hosts from elsewhere; ${compared}, at least `,
        bytes("/certificate/between_hosts_bound"), " must, because hosts need them and do not hold them.");
}

const GIVEN_PLACEMENTS = {
    pinned: "Ranks are where they were pinned; no other placement was compared.",
    sequence: "Ranks are where a sequence of changes needs them.",
    groups: "Each TP group is on one host; ranks of a host need not be consecutive.",
};

function timeClaim({minimal}) {
    return claim(minimal ? true : null, "Fast placement", "The change takes ", seconds("/certificate/by_time/seconds"),
        " instead of ", seconds("/certificate/by_time/seconds_of_fewest_bytes"), " with the fewest bytes; ",
        minimal ? "no placement of blocks is faster." : "no placement of blocks takes less than ",
        minimal ? "" : [seconds("/certificate/by_time/seconds_bound"), "."]);
}

function placementClaim({placement, by_time}) {
    if (hosts.length < 2) return null;
    if (placement === "time") return timeClaim(by_time);
    if (placement !== "optimal")
        return claim(null, "Given placement", GIVEN_PLACEMENTS[placement]);
    const spare = hosts.some((host) => host.spare) ? " that uses as few spare hosts" : "";
    return claim(true, "Best placement",
        `No other assignment of blocks of ranks to hosts${spare} brings fewer bytes into hosts; dual prices prove it.`);
}

function sendingClaim({sending}) {
    const {length} = sending.hosts;
    if (length === 0) return null;
    const named = sending.hosts.slice(0, 6).map((host, index) => [index > 0 ? ", " : "", name(host, 32)]);
    return claim(true, "Balanced senders", bytes("/certificate/sending/bytes"), " can come only from ", named,
        length > 6 ? ` and ${countText(length - 6)} more` : "", `, which takes ${length > 1 ? "them" : "it"} at least `,
        seconds("/certificate/sending/seconds"), ". No choice of senders takes less time.");
}

function showClaims() {
    const claims = [coverageClaim, movementClaim, placementClaim, sendingClaim].map((make) => make(data.certificate));
    const words = element("p", {class: "muted small"}, element("code", {}, "tpx plan --check"),
        " proves a plan file again, with code that shares nothing with the planner; ",
        "tpx-plan(5) describes what is compared and assumed.");
    put("claims", claims, element("li", {class: "aside"}, words));
}
