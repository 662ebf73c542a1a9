// The drawing. It lays out what is visible: every open scope is a box around a small layered drawing of its own, so
// that opening one moves nothing inside the others.
#include "compiler/explain/page.h"

namespace oneflow {

const char kGraphPageDrawing[] = R"page(
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
  for (const i of order) {
    for (const b of before[i]) if (place[b] < place[i]) layer[i] = Math.max(layer[i], layer[b] + 1);
  }
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
      while (take < rest.length && (take === 0 || width + items[rest[take]].w < rowWidth)) {
        width += items[rest[take++]].w + gapX;
      }
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
  const [frames, edges, boxes, marks] = [1, 2, 3, 4].map(() => drawn("g", {}, svg));
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
  for (const d of item.times ? [6, 3] : []) {
    drawn("rect", { x: d, y: d, width: item.w, height: item.h, rx: 8, stroke: "#c8d0d8", fill: "#fff" }, g);
  }
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
      : `M${a.left + a.w} ${a.top + a.h / 2} C${a.left + a.w + 90} ${a.top + a.h / 2} ` +
        `${b.left + b.w + 90} ${b.top + b.h / 2} ${b.left + b.w} ${b.top + b.h / 2}`;
  const strokeOf = edge.near ? "#2166c4" : "#aab4bf";
  if (boxings.length === 0) {
    drawn("path", { d: path, fill: "none", stroke: strokeOf, "stroke-width": edge.near ? 2 : 1.2 }, lines);
    return;
  }
  const seconds = boxings.reduce((sum, x) => sum + x.s, 0), bytes = boxings.reduce((sum, x) => sum + x.b, 0);
  const main = boxings.reduce((best, x) => x.s > best.s ? x : best);
  const colour = kindColours[main.k] || "#555";
  const width = bytes === 0 ? 2 : 2.2 + Math.min(6, 4 * Math.sqrt(seconds / dearest));
  const line = drawn("path", { d: path, fill: "none", stroke: colour, "stroke-width": width,
                               "stroke-opacity": 0.8, "stroke-linecap": "round", cursor: "pointer" }, lines);
  if (bytes === 0) line.setAttribute("stroke-dasharray", "5 4");
  const middle = line.getPointAtLength ? line.getPointAtLength(line.getTotalLength() / 2)
                                       : { x: (x1 + x2) / 2, y: (y1 + y2) / 2 };
  const times = boxings.length > 1 ? boxings.length + " \u00d7 " : "";
  const moved = bytes > 0 ? mostOf(main.m) + bytesText(bytes) + " \u00b7 " : "";
  const look = { x: middle.x + 7, y: middle.y + 4, class: "mark", cursor: "pointer", style: "fill:" + colour };
  const mark = drawn("text", look, marks, times + main.k + "  " + moved + timeText(seconds));
  drawn("title", {}, mark, boxings.map((x) => x.n + "  " + x.w + ": " + x.h).slice(0, 12).join("\n"));
  for (const e of [line, mark]) e.addEventListener("click", () => tell(undefined, [...boxings]));
}

)page";

}  // namespace oneflow
