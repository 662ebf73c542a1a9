// The page, its style and its program. The program lays out what is visible: every open scope is a box around a small
// layered drawing of its own, so that opening one moves nothing inside the others. Names from the graph enter the
// document only as text nodes.
#include "compiler/explain/page.h"

namespace oneflow {

const char kPageHead[] = R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>plan explain</title>
<style>
:root { --ink: #1d2733; --soft: #5b6875; --line: #d8dee5; --back: #f6f8fa; --accent: #2166c4; }
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body { display: grid; grid-template: auto 1fr / 1fr 500px; color: var(--ink); background: var(--back);
       font: 13px/1.45 system-ui, "DejaVu Sans", sans-serif; }
header { grid-column: 1 / 3; display: flex; flex-wrap: wrap; gap: 8px 18px; align-items: center; padding: 9px 16px;
         background: #fff; border-bottom: 1px solid var(--line); }
h1 { margin: 0; font-size: 16px; }
h2 { margin: 0 0 6px; font-size: 13px; }
.soft { color: var(--soft); }
button { font: inherit; color: inherit; padding: 3px 10px; border: 1px solid var(--line); border-radius: 6px;
         background: #fff; cursor: pointer; }
button.on { background: var(--accent); border-color: var(--accent); color: #fff; }
label { cursor: pointer; user-select: none; }
.search { position: relative; margin-left: auto; }
.search input { font: inherit; width: 250px; padding: 4px 9px; border: 1px solid var(--line); border-radius: 6px; }
#found { position: absolute; right: 0; top: 30px; z-index: 5; width: 430px; max-height: 330px; overflow: auto; background: #fff;
         border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 6px 22px #0002; }
#found div { padding: 3px 10px; cursor: pointer; }
#found div:hover { background: #e8f0fb; }
#found:empty { display: none; }
#drawing { overflow: auto; position: relative; }
#drawing svg { display: block; margin: 14px auto; }
aside { display: flex; flex-direction: column; min-height: 0; background: #fff; border-left: 1px solid var(--line); }
#told { flex: 1 1 45%; overflow: auto; padding: 12px 14px; border-bottom: 1px solid var(--line); }
#told p { margin: 0; font: 11px/1.5 "DejaVu Sans Mono", ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
#told p.title { font-weight: 600; font-size: 12px; margin: 8px 0 4px; }
#told p.fact { display: grid; grid-template-columns: 88px 1fr; }
#told p.fact span { padding-left: 3ch; text-indent: -3ch; }
#told p.fact span + span { border-left: 1px solid #eef1f4; padding-left: calc(3ch + 8px); }
#told .link { color: var(--accent); cursor: pointer; margin-bottom: 2px; }
#dearest { flex: 1 1 55%; overflow: auto; padding: 12px 14px; }
table { border-collapse: collapse; width: 100%; font-size: 12px; }
th { text-align: left; font-weight: 600; color: var(--soft); position: sticky; top: -12px; background: #fff; }
th, td { padding: 3px 6px 3px 0; vertical-align: top; border-bottom: 1px solid #eef1f4; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; }
tbody tr { cursor: pointer; }
tbody tr:hover { background: #f0f5fc; }
.legend { display: flex; flex-wrap: wrap; gap: 3px 10px; font-size: 11.5px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 4px; vertical-align: -1px; }
.legend i.edge { height: 4px; border-radius: 2px; vertical-align: 3px; width: 16px; }
svg text { font-family: system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
svg .name { font-size: 12.5px; font-weight: 600; }
svg .small { font-size: 10.5px; fill: var(--soft); }
svg .chip { font-size: 10px; fill: #fff; }
svg .mark { font-size: 10.5px; font-weight: 600; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
svg .box { cursor: pointer; }
svg .box:hover > rect.body { stroke: var(--accent); }
svg .frame { cursor: pointer; }
@media (max-width: 1000px) { body { grid-template: auto 1fr 45% / 1fr; } header { grid-column: 1; }
                             aside { border-left: 0; border-top: 1px solid var(--line); } }
</style>
</head>
<body>
<header>
  <div><h1 id="title"></h1><div id="sums" class="soft"></div></div>
  <div id="graphs"></div>
  <div id="parts"></div>
  <div><button id="close">one level</button> <button id="open">open all</button>
       <button id="less" title="smaller">&minus;</button> <button id="more" title="larger">+</button></div>
  <div class="search"><input id="query" type="search" placeholder="find a tensor" autocomplete="off"><div id="found"></div></div>
  <div class="legend" id="legend"></div>
</header>
<main id="drawing"></main>
<aside>
  <section id="told"></section>
  <section id="dearest"><h2>Dearest boxings of a step</h2><table><thead><tr><th>tensor</th><th>change</th>
    <th class="number">bytes</th><th class="number">time</th></tr></thead><tbody id="rows"></tbody></table></section>
</aside>
<script type="application/json" id="data">)page";

const char kPageTail[] = R"page(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const partNames = ["forward", "backward", "update"];
const sbpColours = { "B": "#8996a4", "S(0)": "#2f7ed8", "S(1)": "#14916b", "S(2)": "#8259cf", "S(3)": "#a8851a",
                     "S(4)": "#b04a8c", "P": "#dd6b20", "P(max)": "#c53030", "P(min)": "#c53030" };
const kindColours = { "all-reduce": "#c93a46", "reduce-scatter": "#dd8420", "all-gather": "#8259cf", "all-to-all": "#c03b9b",
                      "broadcast": "#14916b", "move": "#2f7ed8", "exchange": "#7a6a55", "several": "#7a4a2a", "local": "#9aa5b1" };
const colourOf = (sbp) => sbpColours[sbp] || "#555";

function bytesText(b) {
  if (b < 1000) return b + " B";
  let unit = -1;
  while (b >= 999.5 && unit < 3) { b /= 1024; ++unit; }
  return (b >= 99.95 ? b.toFixed(0) : b >= 9.995 ? b.toFixed(1) : b.toFixed(2)) + " " + ["KiB", "MiB", "GiB", "TiB"][unit];
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
const nameFont = "600 12.5px system-ui, DejaVu Sans, sans-serif", smallFont = "10.5px system-ui, DejaVu Sans, sans-serif";
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
      timeText(graph.boxing) + ", moves " + mostOf(graph.links) + bytesText(graph.bytes) + (graph.bytes > 0 ? " (" + graph.links + ")" : "");
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
    element("div", "A click on a box explains its tensor; a click on a scope (\u25b8) opens it, on an open scope's title closes it. " +
            "Thick edges are boxings: bytes and predicted time of a step; a click lists them.", told, "soft");
  }
  told.scrollTo(0, 0);
}

// --- scopes ----------------------------------------------------------------------------------------------------------
// Items are leaves (one node) and scopes (items inside). A scope of one op alone is shown as that op.
function itemsOf() {
  const root = { children: [], nodes: [], scopes: new Map() };
  graph.nodes.forEach((n, i) => {
    if (!parts[n.p]) return;
    let at = root;
    for (const path of n.path) {
      const key = n.p + "|" + path;
      if (!at.scopes.has(key)) {
        const scope = { key, path, part: n.p, children: [], nodes: [], scopes: new Map() };
        at.scopes.set(key, scope);
        at.children.push(scope);
      }
      at = at.scopes.get(key);
      at.nodes.push(i);
    }
    at.children.push({ leaf: i, nodes: [i], label: n.l });
  });
  const finish = (scope) => {
    scope.children = scope.children.map((child) => {
      if (child.leaf !== undefined) return child;
      if (child.nodes.length === 1) {
        const i = child.nodes[0];
        return { leaf: i, nodes: [i], label: graph.nodes[i].n.slice(child.path.lastIndexOf("/") + 1) };
      }
      finish(child);
      const last = child.path.slice(child.path.lastIndexOf("/") + 1);
      child.label = last;
      if (last.endsWith("*") && child.children.length > 0) {
        const ends = [child.children[0], child.children[child.children.length - 1]].map((c) => c.label);
        child.label = child.children.length > 1 ? ends[0] + " \u2026 " + ends[1] : ends[0];
        child.times = child.children.length;
      }
      if (child.part > 0) child.label += " (" + partNames[child.part] + ")";
      return child;
    });
  };
  finish(root);
  return root.children;
}

function scopeFigures(item) {
  const inside = new Set(item.nodes);
  let boxing = 0, compute = 0;
  for (const i of item.nodes) compute += graph.nodes[i].c;
  const seen = new Set();
  for (const [from, to, way] of graph.edges) {
    if (!inside.has(from) || !inside.has(to)) continue;
    for (const b of way) if (!seen.has(b)) { seen.add(b); boxing += graph.boxings[b].s; }
  }
  let out = -1;
  for (const [from, to] of graph.edges) if (inside.has(from) && !inside.has(to) && from > out) out = from;
  return { text: item.nodes.length + " ops, " + timeText(compute) + (boxing > 0 ? " + " + timeText(boxing) : ""), out };
}

// --- layout ----------------------------------------------------------------------------------------------------------
const margin = 60, gapX = 26, gapY = 46, pad = 16, headHeight = 28, rowWidth = 1150;

function measure(item) {
  if (item.leaf === undefined && opened.has(item.key)) {
    const inner = layOut(item.children);
    item.w = Math.max(inner.w + 2 * pad, widthOf(item.label, nameFont) + 60);
    item.h = inner.h + headHeight + pad;
    item.open = true;
    const shift = (item.w - inner.w) / 2;
    for (const child of item.children) { child.x += shift; child.y += headHeight; }
    return;
  }
  const figures = item.leaf === undefined ? scopeFigures(item) : null;
  const node = item.leaf === undefined ? graph.nodes[figures.out] : graph.nodes[item.leaf];
  item.lines = [(item.leaf === undefined ? "\u25b8 " : "") + item.label + (item.times ? "  \u00d7" + item.times : ""),
                figures ? figures.text : node.o + (node.t ? "  " + node.t : "")];
  item.chips = node ? node.d : [];
  let chips = 0;
  for (const [axis, sbp] of item.chips) chips += widthOf(axis + " " + sbp, chipFont) + 15;
  item.w = Math.max(widthOf(item.lines[0], nameFont), widthOf(item.lines[1], smallFont), chips) + 24;
  item.h = item.chips.length > 0 ? 58 : 42;
}

// Gives every item x and y inside its parent; {w, h} of all.
function layOut(items) {
  const owner = new Map();
  items.forEach((item, i) => { measure(item); for (const n of item.nodes) owner.set(n, i); });
  const before = items.map(() => new Set()), after = items.map(() => new Set());
  for (const [from, to] of graph.edges) {
    const a = owner.get(from), b = owner.get(to);
    if (a === undefined || b === undefined || a === b) continue;
    before[b].add(a);
    after[a].add(b);
  }
  // Layers by the longest way, in the order of the first nodes that read something (variables come first in any graph);
  // what would go back in that order does not count.
  const first = items.map((item) => item.nodes.find((n) => reads[n]) ?? item.nodes[0]);
  const order = items.map((_, i) => i).sort((a, b) => first[a] - first[b]);
  const place = [];
  order.forEach((item, i) => { place[item] = i; });
  const layer = items.map(() => 0);
  for (const i of order) for (const b of before[i]) if (place[b] < place[i]) layer[i] = Math.max(layer[i], layer[b] + 1);
  for (const i of [...order].reverse()) {  // what reads nothing moves next to its first reader
    const readers = [...after[i]].filter((r) => place[r] > place[i]).map((r) => layer[r]);
    if (readers.length > 0 && before[i].size === 0) layer[i] = Math.min(...readers) - 1;
  }
  const layers = [];
  for (const i of order) (layers[layer[i]] = layers[layer[i]] || []).push(i);
  const centre = [];
  let y = 0, left = Infinity, right = -Infinity;
  for (const row of layers) {
    if (!row) continue;
    const wish = (i) => {
      const known = [...before[i]].filter((b) => centre[b] !== undefined);
      if (known.length === 0) return undefined;
      return known.reduce((sum, b) => sum + centre[b], 0) / known.length;
    };
    const wishes = new Map(row.map((i) => [i, wish(i)]));
    const named = row.filter((i) => wishes.get(i) !== undefined).sort((a, b) => wishes.get(a) - wishes.get(b));
    const sources = row.filter((i) => wishes.get(i) === undefined);
    let rest = [...named, ...sources];
    while (rest.length > 0) {
      let width = 0, take = 0;
      while (take < rest.length && (take === 0 || width + items[rest[take]].w < rowWidth)) width += items[rest[take++]].w + gapX;
      const line = rest.slice(0, take);
      rest = rest.slice(take);
      let x = 0, off = 0, count = 0, height = 0;
      for (const i of line) {
        centre[i] = x + items[i].w / 2;
        x += items[i].w + gapX;
        height = Math.max(height, items[i].h);
        if (wishes.get(i) !== undefined) { off += wishes.get(i) - centre[i]; ++count; }
      }
      const shift = count > 0 ? off / count : -(x - gapX) / 2;
      for (const i of line) {
        centre[i] += shift;
        items[i].x = centre[i] - items[i].w / 2;
        items[i].y = y + (height - items[i].h) / 2;
        left = Math.min(left, items[i].x);
        right = Math.max(right, items[i].x + items[i].w);
      }
      y += height + (rest.length > 0 ? 14 : gapY);
    }
  }
  for (const item of items) item.x -= left;
  return { w: Math.max(0, right - left), h: Math.max(0, y - gapY) };
}

// --- drawing ---------------------------------------------------------------------------------------------------------
function draw() {
  const items = itemsOf();
  const size = layOut(items);
  const svg = drawn("svg", { width: (size.w + 2 * margin) * zoom, height: (size.h + 2 * margin) * zoom,
                             viewBox: `${-margin} ${-margin / 2} ${size.w + 2 * margin} ${size.h + 2 * margin}` });
  const frames = drawn("g", {}, svg), edges = drawn("g", {}, svg), boxes = drawn("g", {}, svg), marks = drawn("g", {}, svg);
  const shown = new Map();  // node -> the box that stands for it
  const visit = (item, x, y) => {
    item.left = x + item.x;
    item.top = y + item.y;
    if (item.open) {
      drawFrame(item, frames);
      for (const child of item.children) visit(child, item.left, item.top);
    } else {
      for (const n of item.nodes) shown.set(n, item);
      drawBox(item, boxes);
    }
  };
  for (const item of items) visit(item, 0, 0);
  drawEdges(shown, edges, marks);
  byId("drawing").replaceChildren(svg);
  return shown;
}

function drawFrame(item, parent) {
  const g = drawn("g", { class: "frame", transform: `translate(${item.left},${item.top})` }, parent);
  drawn("rect", { width: item.w, height: item.h, rx: 10, fill: "#ffffff", "fill-opacity": 0.55, stroke: "#c3ccd6",
                  "stroke-dasharray": "5 3" }, g);
  drawn("text", { x: 12, y: 18, class: "name" }, g, "\u25be " + item.label);
  g.addEventListener("click", () => { opened.delete(item.key); draw(); });
}

function drawBox(item, parent) {
  const g = drawn("g", { class: "box", transform: `translate(${item.left},${item.top})` }, parent);
  const isScope = item.leaf === undefined, chosen = item.leaf !== undefined && item.leaf === selected;
  const part = isScope ? item.part : graph.nodes[item.leaf].p;
  const body = { class: "body", width: item.w, height: item.h, rx: 8, stroke: chosen ? "#2166c4" : "#b9c3cd",
                 "stroke-width": chosen ? 2.5 : 1.2, fill: ["#ffffff", "#fff8ef", "#f1f8f0"][part] };
  if (item.times) for (const d of [6, 3]) drawn("rect", { x: d, y: d, width: item.w, height: item.h, rx: 8, stroke: "#c8d0d8", fill: "#fff" }, g);
  drawn("rect", body, g);
  drawn("text", { x: 12, y: 18, class: "name" }, g, item.lines[0]);
  drawn("text", { x: 12, y: 32, class: "small" }, g, item.lines[1]);
  let x = 11;
  for (const [axis, sbp] of item.chips) {
    const width = widthOf(axis + " " + sbp, chipFont) + 10;
    drawn("rect", { x, y: 38, width, height: 14, rx: 4, fill: colourOf(sbp) }, g);
    drawn("text", { x: x + 5, y: 48.5, class: "chip" }, g, axis + " " + sbp);
    x += width + 5;
  }
  const hint = isScope ? item.path + ": " + item.lines[1] : graph.nodes[item.leaf].x.split("\n").slice(0, 3).join("\n");
  drawn("title", {}, g, hint);
  g.addEventListener("click", () => {
    if (isScope) { opened.add(item.key); draw(); return; }
    select(item.leaf);
  });
}

// Edges between the same two boxes are one; what is boxed on them adds up.
function drawEdges(shown, lines, marks) {
  const merged = new Map();
  for (const [from, to, way] of graph.edges) {
    const a = shown.get(from), b = shown.get(to);
    if (!a || !b || a === b) continue;
    let ends = merged.get(a);
    if (!ends) merged.set(a, ends = new Map());
    let edge = ends.get(b);
    if (!edge) ends.set(b, edge = { boxings: new Set(), near: false });
    for (const i of way) edge.boxings.add(i);
    edge.near = edge.near || from === selected || to === selected;
  }
  const dearest = Math.max(1e-12, ...graph.boxings.map((b) => b.s));
  for (const [a, ends] of merged) for (const [b, edge] of ends) drawEdge(a, b, edge, dearest, lines, marks);
}

function drawEdge(a, b, edge, dearest, lines, marks) {
  const boxings = [...edge.boxings].map((i) => graph.boxings[i]);
  const down = b.top >= a.top + a.h;
  const x1 = a.left + a.w / 2, y1 = a.top + a.h, x2 = b.left + b.w / 2, y2 = b.top;
  // A long edge bows out, so that it does not run behind the boxes between its ends.
  const far = y2 - y1 > 130 || !down;
  const bow = far ? Math.max(a.w, b.w) / 2 + 22 + Math.min(90, Math.abs(y2 - y1) / 14) : 0;
  const bend = Math.max(18, Math.min(70, Math.abs(y2 - y1) / 2));
  const path = down
      ? `M${x1} ${y1} C${x1 + bow} ${y1 + bend} ${x2 + bow} ${y2 - bend} ${x2} ${y2}`
      : `M${a.left + a.w} ${a.top + a.h / 2} C${a.left + a.w + 90} ${a.top + a.h / 2} ${b.left + b.w + 90} ${b.top + b.h / 2} ${b.left + b.w} ${b.top + b.h / 2}`;
  const strokeOf = edge.near ? "#2166c4" : "#aab4bf";
  if (boxings.length === 0) {
    drawn("path", { d: path, fill: "none", stroke: strokeOf, "stroke-width": edge.near ? 2 : 1.2 }, lines);
    return;
  }
  const seconds = boxings.reduce((sum, x) => sum + x.s, 0), bytes = boxings.reduce((sum, x) => sum + x.b, 0);
  const main = boxings.reduce((best, x) => x.s > best.s ? x : best);
  const colour = kindColours[main.k] || "#555";
  const line = drawn("path", { d: path, fill: "none", stroke: colour, "stroke-width": bytes === 0 ? 2 : 2.2 + Math.min(6, 4 * Math.sqrt(seconds / dearest)),
                               "stroke-opacity": 0.8, "stroke-linecap": "round", cursor: "pointer" }, lines);
  if (bytes === 0) line.setAttribute("stroke-dasharray", "5 4");
  const middle = line.getPointAtLength ? line.getPointAtLength(line.getTotalLength() / 2) : { x: (x1 + x2) / 2, y: (y1 + y2) / 2 };
  const text = (boxings.length > 1 ? boxings.length + " \u00d7 " : "") + main.k + "  " + (bytes > 0 ? mostOf(main.m) + bytesText(bytes) + " \u00b7 " : "") + timeText(seconds);
  const mark = drawn("text", { x: middle.x + 7, y: middle.y + 4, class: "mark", cursor: "pointer", style: "fill:" + colour }, marks, text);
  drawn("title", {}, mark, boxings.map((x) => x.n + "  " + x.w + ": " + x.h).slice(0, 12).join("\n"));
  for (const e of [line, mark]) e.addEventListener("click", () => tell(undefined, [...boxings]));
}

// --- choosing --------------------------------------------------------------------------------------------------------
function select(node) {
  selected = node;
  const main = byId("drawing"), x = main.scrollLeft, y = main.scrollTop;
  draw();
  main.scrollTo(x, y);
  tell(node);
}

// Opens what hides the node, brings it into sight and explains it.
function reveal(node) {
  const n = graph.nodes[node];
  parts[n.p] = true;
  for (const box of document.querySelectorAll("#parts input")) box.checked = parts[box.dataset.part];
  for (const path of n.path) opened.add(n.p + "|" + path);
  selected = node;
  const item = draw().get(node);
  const main = byId("drawing");
  const svg = main.firstElementChild.getBoundingClientRect(), frame = main.getBoundingClientRect();
  main.scrollLeft += svg.left - frame.left + (item.left + item.w / 2 + margin) * zoom - main.clientWidth / 2;
  main.scrollTop += svg.top - frame.top + (item.top + item.h / 2 + margin / 2) * zoom - main.clientHeight / 2;
  tell(node);
}

byId("query").addEventListener("input", () => {
  const query = byId("query").value.trim().toLowerCase();
  const hits = query === "" ? [] : graph.nodes.map((n, i) => [n, i]).filter(([n]) => n.n.toLowerCase().includes(query)).slice(0, 40);
  byId("found").replaceChildren(...hits.map(([n, i]) => {
    const hit = element("div", n.n);
    element("span", "  " + n.o + (n.p > 0 ? ", " + partNames[n.p] : ""), hit, "soft");
    hit.onclick = () => { byId("found").replaceChildren(); reveal(i); };
    return hit;
  }));
});
byId("query").addEventListener("keydown", (event) => {
  const first = byId("found").firstElementChild;
  if (event.key === "Enter" && first) first.click();
  if (event.key === "Escape") byId("found").replaceChildren();
});
byId("close").onclick = () => { opened.clear(); draw(); };
byId("open").onclick = () => {
  for (const n of graph.nodes) if (parts[n.p]) for (const path of n.path) opened.add(n.p + "|" + path);
  draw();
};
byId("less").onclick = () => { zoom = Math.max(0.3, zoom / 1.2); draw(); };
byId("more").onclick = () => { zoom = Math.min(3, zoom * 1.2); draw(); };

// "#graph/tensor" opens the page at that tensor.
show(0);
const asked = decodeURIComponent(location.hash.slice(1));
if (asked) {
  data.graphs.some((g, i) => {
    const node = g.nodes.findIndex((n) => g.name + "/" + n.n === asked);
    if (node < 0) return false;
    if (i > 0) show(i);
    reveal(node);
    return true;
  });
}
</script>
</body>
</html>
)page";

}  // namespace oneflow
