// SPDX-License-Identifier: Apache-2.0
// Fills the page of a plan, from top to bottom.
"use strict";

function showNotes() {
    if (data.notes.length === 0) return byId("notes").remove();
    put("notes-list", data.notes.map((note) => element("li", {}, name(note))));
}

function showContents() {
    const sections = [...document.querySelectorAll("main > section:not(#summary)")];
    const link = ({id}) => element("a", {href: `#${id}`}, byId(`${id}-title`).textContent);
    put("contents", sections.map((section) => element("li", {}, link(section))));
    put("made", `Made by ${document.querySelector("meta[name=generator]").content}.`);
}

showHead();
showDegrees();
showVerdict();
showTravels();
showRoles();
showRanks();
showFlows();
showLoads();
showTime();
showClaims();
showNotes();
showNumbers();
showContents();
document.documentElement.dataset.ready = "true";
