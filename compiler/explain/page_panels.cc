// The data, figures in words, the lists beside the drawing and the explanation of what was clicked.
#include "compiler/explain/page.h"

namespace oneflow {

const char kGraphPagePanels[] = R"page(
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const partNames = ["forward", "backward", "update"];
const sbpColours = { "B": "#8996a4", "S(0)": "#2f7ed8", "S(1)": "#14916b", "S(2)": "#8259cf", "S(3)": "#a8851a",
                     "S(4)": "#b04a8c", "P": "#dd6b20", "P(max)": "#c53030", "P(min)": "#c53030" };
const kindColours = { "all-reduce": "#c93a46", "reduce-scatter": "#dd8420", "all-gather": "#8259cf",
                      "all-to-all": "#c03b9b", "broadcast": "#14916b", "move": "#2f7ed8", "exchange": "#7a6a55",
                      "several": "#7a4a2a", "local": "#9aa5b1" };
const colourOf = (sbp) => sbpColours[sbp] || "#555";

function bytesText(b) {
  if (b < 1000) return b + " B";
  let unit = -1;
  while (b >= 999.5 && unit < 3) { b /= 1024; ++unit; }
  const digits = b >= 99.95 ? 0 : b >= 9.995 ? 1 : 2;
  return b.toFixed(digits) + " " + ["KiB", "MiB", "GiB", "TiB"][unit];
}
// Before a number of bytes that is the most that move, not what moves.
function mostOf(links) { return links.startsWith("at most") ? "\u2264 " : ""; }
function timeText(s) {
  const digits = (x) => x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
  if (s === 0) return "0";
  if (s < 999.5e-9) return digits(s * 1e9) + " ns";
  if (s < 999.5e-6) return digits(s * 1e6) + " us";
  if (s < 999.5e-3) return digits(s * 1e3) + " ms";
  return digits(s) + " s";
}
function element(tag, text, parent, className) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  if (className) e.className = className;
  if (parent) parent.append(e);
  return e;
}
function drawn(tag, attributes, parent, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) e.setAttribute(name, attributes[name]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}
const pen = document.createElement("canvas").getContext("2d");
function widthOf(text, font) { pen.font = font; return pen.measureText(text).width; }
const nameFont = "600 12.5px system-ui, DejaVu Sans, sans-serif";
const smallFont = "10.5px system-ui, DejaVu Sans, sans-serif";
const chipFont = "10px system-ui, DejaVu Sans, sans-serif";

// --- what is shown ---------------------------------------------------------------------------------------------------
let graph, opened, parts, selected, zoom = 1;
let reads;  // by node: whether it has inputs

function show(number) {
  graph = data.graphs[number];
  reads = graph.nodes.map(() => false);
  for (const [, to] of graph.edges) reads[to] = true;
  opened = new Set();
  parts = [true, false, false];
  selected = null;
  byId("title").textContent = data.job + (graph.mesh ? " on " + graph.mesh : "");
  byId("sums").textContent = "a step of '" + graph.name + "': compute " + timeText(graph.compute) + ", boxing " +
      timeText(graph.boxing) + ", moves " + mostOf(graph.links) + bytesText(graph.bytes) +
      (graph.bytes > 0 ? " (" + graph.links + ")" : "");
  byId("graphs").replaceChildren(...data.graphs.map((g, i) => {
    const b = element("button", g.name, null, i === number ? "on" : "");
    b.onclick = () => show(i);
    return b;
  }));
  byId("parts").replaceChildren(...partNames.map((name, i) => {
    if (!graph.nodes.some((n) => n.p === i)) return "";
    const label = element("label");
    const box = element("input", null, label);
    box.type = "checkbox";
    box.checked = parts[i];
    box.dataset.part = i;
    box.onchange = () => { parts[i] = box.checked; draw(); };
    label.append(" " + name + "  ");
    return label;
  }));
  legend();
  rows();
  tell();
  draw();
  byId("drawing").scrollTo(0, 0);
}

function legend() {
  const used = new Set(), kinds = new Set(graph.boxings.map((b) => b.k));
  for (const n of graph.nodes) for (const [, sbp] of n.d) used.add(sbp);
  const parts = [];
  for (const sbp of [...used].sort()) {
    const e = element("span");
    element("i", "", e).style.background = colourOf(sbp);
    e.append(sbp);
    parts.push(e);
  }
  for (const kind of Object.keys(kindColours).filter((k) => kinds.has(k))) {
    const e = element("span");
    element("i", "", e, "edge").style.background = kindColours[kind];
    e.append(kind);
    parts.push(e);
  }
  byId("legend").replaceChildren(...parts);
}

// Boxings that differ only in the layer are one row.
function rows() {
  const groups = new Map();
  for (const b of graph.boxings) {
    const key = [b.g, b.w, b.t, b.b].join("|");
    if (!groups.has(key)) groups.set(key, { first: b, count: 0, bytes: 0, seconds: 0 });
    const group = groups.get(key);
    ++group.count;
    group.bytes += b.b;
    group.seconds += b.s;
  }
  const sorted = [...groups.values()].sort((a, b) => b.seconds - a.seconds);
  byId("rows").replaceChildren(...sorted.map(({ first, count, bytes, seconds }) => {
    const row = element("tr"), name = element("td", count > 1 ? first.g : first.n, row);
    if (count > 1) element("span", "  \u00d7" + count, name, "soft");
    const change = element("td", first.w, row);
    element("div", first.h + (first.a > 1 ? ", " + first.a + " times" : ""), change, "soft");
    element("td", mostOf(first.m) + bytesText(bytes), row, "number");
    element("td", timeText(seconds), row, "number");
    row.onclick = () => reveal(first.i);
    return row;
  }));
}

// An explanation as text has titles at the left and facts behind a column of labels; here long facts hang.
function explanation(text, parent) {
  for (const line of text.trimEnd().split("\n")) {
    if (!line.startsWith("  ")) { element("p", line, parent, "title"); continue; }
    const fact = element("p", null, parent, "fact");
    element("span", line.slice(2, 16).trim(), fact, "soft");
    element("span", line.slice(16), fact);
  }
}

// The panel: one node's explanation, or a list of boxings.
function tell(node, boxings) {
  const told = byId("told");
  told.replaceChildren();
  if (boxings) {
    element("h2", boxings.length + (boxings.length === 1 ? " boxing" : " boxings"), told);
    for (const b of boxings.sort((x, y) => y.s - x.s)) {
      const link = element("div", b.n, told, "link");
      link.onclick = () => reveal(b.i);
      for (const line of [b.t, b.w, b.h, b.m + ", " + timeText(b.s) + " of a step", " "]) element("p", line, told);
    }
  } else if (node !== undefined) {
    explanation(graph.nodes[node].x, told);
  } else {
    element("h2", "Why does a tensor lie as it does?", told);
    element("div", "A click on a box explains its tensor; a click on a scope (\u25b8) opens it, on an open scope's " +
            "title closes it. Thick edges are boxings: bytes and predicted time of a step; a click lists them.",
            told, "soft");
  }
  told.scrollTo(0, 0);
}

)page";

}  // namespace oneflow
