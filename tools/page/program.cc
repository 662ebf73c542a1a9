// The page's program. State is in one object and in the address, which says what is shown:
//
//   #job=3&with=3,2,1&tab=curves        job 3, its curves over those of jobs 2 and 1
//
// The server says what has changed, and the program asks for what of that it shows. Text from outside becomes text
// nodes, never markup.
#include "tools/page/document.h"

namespace oneflow {

const char kPageProgram[] = R"page("use strict";

// --- state ---

const state = {
  jobs: [], counts: {}, older: false,   // the list, the newest first
  job: 0, chosen: [], tab: "curves",    // what is looked at
  about: new Map(), history: new Map(), // by job
  asking: new Set(), again: new Set(),  // jobs whose histories are on their way, or to be asked for once more
  picked: false,                        // whether someone has chosen
};
const TABS = ["curves", "plan", "timeline", "events", "processes", "config"];
const COLOURS = 8;
const $ = (id) => document.getElementById(id);

function fail(error) {
  document.body.dataset.errors = Number(document.body.dataset.errors) + 1;
  document.body.dataset.error = String(error && error.message || error);
}
window.addEventListener("error", (event) => fail(event.error || event.message));
window.addEventListener("unhandledrejection", (event) => fail(event.reason));

// --- elements ---

// make("p.soft", {title: "..."}, "text", child)
function make(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  return fill(element, attributes, children);
}
function draw(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// --- words ---

function short(x) {
  if (x === null || x === undefined || !isFinite(x)) return "no number";
  const a = Math.abs(x);
  if (a >= 1e9) return (x / 1e9).toPrecision(3) + "G";
  if (a >= 1e6) return (x / 1e6).toPrecision(3) + "M";
  if (a >= 1e4) return (x / 1e3).toPrecision(3) + "k";
  if (a !== 0 && a < 1e-3) return x.toExponential(1);
  return String(Number(x.toPrecision(4)));
}
function size(bytes) {
  for (const [unit, one] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= one) return (bytes / one).toPrecision(3) + " " + unit;
  }
  return bytes + " B";
}
const time = (us) => us ? new Date(us / 1000).toLocaleString() : "";
function span(seconds) {
  const s = Math.max(0, Math.round(seconds)), two = (n) => String(n).padStart(2, "0");
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

// --- asking ---

async function ask(path) {
  const reply = await fetch(path);
  if (!reply.ok) throw new Error((await reply.text()).trim());
  return reply.json();
}

async function askJobs() {
  const list = await ask("api/jobs");
  state.jobs = list.jobs, state.counts = list.counts;
  $("older").hidden = list.jobs.length < 200;
  pick();
  showList();
  const mine = state.jobs.find((job) => job.job === state.job);
  const known = state.about.get(state.job);
  if (mine && (!known || JSON.stringify(mine.state + mine.attempt + mine.message) !== known.seen)) await askJob(state.job);
}

async function askOlder() {
  const last = state.jobs[state.jobs.length - 1];
  const list = await ask("api/jobs?before=" + last.job);
  state.jobs = state.jobs.concat(list.jobs), state.older = true;
  $("older").hidden = list.jobs.length < 200;
  showList();
}

async function askJob(number) {
  const about = await ask("api/jobs/" + number);
  const listed = state.jobs.find((job) => job.job === number);
  about.seen = listed ? JSON.stringify(listed.state + listed.attempt + listed.message) : "";
  state.about.set(number, about);
  if (state.chosen.includes(number)) show();
}

// What is new of a job's curves is put behind, or in the place of, what is there.
async function askHistory(number) {
  if (state.asking.has(number)) return void state.again.add(number);
  state.asking.add(number);
  try {
    const former = state.history.get(number) || {curves: {}};
    const known = {};
    for (const [name, curve] of Object.entries(former.curves)) known[name] = [curve.generation, curve.points.length];
    let next;
    try {
      next = await ask(`api/jobs/${number}/history?known=${encodeURIComponent(JSON.stringify(known))}`);
    } catch (error) {
      next = {...former, trouble: error.message, events: former.events || []};
    }
    for (const [name, curve] of Object.entries(next.curves)) {
      if (curve.from > 0) curve.points = former.curves[name].points.slice(0, curve.from).concat(curve.points), curve.from = 0;
    }
    state.history.set(number, next);
    if (next.more > 0) state.again.add(number);
  } finally {
    state.asking.delete(number);
  }
  show();
  if (state.again.delete(number)) await askHistory(number);
}

let source = null, followed = "";
function follow() {
  const jobs = state.chosen.join(",");
  if (source && jobs === followed) return;
  if (source) source.close();
  followed = jobs;
  source = new EventSource("api/live?jobs=" + jobs);
  let list = -1;
  const events = {};
  source.onopen = () => { $("live").textContent = "live"; $("live").className = "on"; };
  source.onerror = () => { $("live").textContent = "not connected"; $("live").className = "off"; };
  source.onmessage = (message) => {
    const now = JSON.parse(message.data);
    if (now.list !== list && !state.older) askJobs().catch(fail);
    list = now.list;
    for (const [job, count] of Object.entries(now.jobs)) {
      if (events[job] !== count) askHistory(Number(job)).catch(fail);
      events[job] = count;
    }
  };
}

// --- what is looked at ---

function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  state.job = Number(address.get("job")) || 0;
  state.chosen = (address.get("with") || "").split(",").map(Number).filter((n) => n > 0).slice(0, COLOURS);
  if (state.job && !state.chosen.includes(state.job)) state.chosen.unshift(state.job);
  state.tab = TABS.includes(address.get("tab")) ? address.get("tab") : "curves";
  state.picked = state.job > 0;
}
function writeAddress() {
  state.picked = true;
  history.replaceState(null, "", `#job=${state.job}&with=${state.chosen.join(",")}&tab=${state.tab}`);
}
// Until someone chooses: what runs, or the newest that has begun.
function pick() {
  if (state.picked || !state.jobs.length) return;
  const runs = state.jobs.filter((job) => job.state === "RUNNING").slice(0, COLOURS).map((job) => job.job);
  const chosen = runs.length ? runs : [(state.jobs.find((job) => job.attempt > 0) || state.jobs[0]).job];
  if (chosen.join() === state.chosen.join()) return;
  state.chosen = chosen, state.job = chosen[0];
  look();
}
// Asks for what is to be shown, and shows what there is.
function look() {
  follow();
  for (const job of state.chosen) {
    if (!state.about.has(job)) askJob(job).catch((error) => show(error.message));
  }
  showList();
  show();
}
function focus(job) {
  state.job = job;
  if (!state.chosen.includes(job)) state.chosen = [job, ...state.chosen].slice(0, COLOURS);
  $("nodes").hidden || showNodes(false);
  writeAddress();
  look();
}
function choose(job, chosen) {
  state.chosen = chosen ? [...state.chosen, job].slice(-COLOURS) : state.chosen.filter((one) => one !== job);
  if (!state.chosen.length) state.chosen = [job];
  if (!state.chosen.includes(state.job)) state.job = state.chosen[0];
  writeAddress();
  look();
}
const colour = (job) => "k" + state.chosen.indexOf(job) % COLOURS;
const nameOf = (job) => {
  const about = state.about.get(job);
  return about ? `${job} ${about.status.name}` : String(job);
};

// --- the list ---

function showList() {
  $("counts").textContent = Object.entries(state.counts).filter(([, n]) => n > 0).map(([name, n]) => `${n} ${name.toLowerCase()}`).join(", ");
  $("jobs").replaceChildren(...state.jobs.map((job) => {
    const chosen = state.chosen.includes(job.job);
    const box = make("input", {type: "checkbox", "aria-label": "show the curves of job " + job.job, onclick: (event) => {
      event.stopPropagation();
      choose(job.job, event.target.checked);
    }});
    box.checked = chosen;
    return make(job.job === state.job ? "tr.focus" : "tr", {onclick: () => focus(job.job)},
      make("td", {}, box, chosen ? make("span.swatch." + colour(job.job)) : null),
      make("td", {}, String(job.job)), make("td.name", {title: job.name}, job.name),
      make("td", {}, make("span.state." + job.state, {title: job.message}, job.state.toLowerCase())),
      make("td", {}, `${job.processes} x ${job.devices_per_process} ${job.device}`));
  }));
}

// --- charts ---

// About `count` round numbers between two.
function ticks(least, most, count) {
  const raw = (most - least) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((n) => n * power >= raw));
  const marks = [];
  for (let x = Math.ceil(least / step) * step; x <= most + step * 1e-9; x += step) marks.push(x);
  return marks;
}

// Neighbours put together, so that at most `most` are left: what many steps have in common is seen, and how far they
// lie apart is the band around it.
function thin(points, most) {
  const by = Math.ceil(points.length / most), thinned = [];
  for (let i = 0; i < points.length && by > 1; i += by) {
    const some = points.slice(i, i + by), sum = some.reduce((total, p) => total + p[1], 0);
    thinned.push([some[Math.floor(some.length / 2)][0], sum / some.length, Math.min(...some.map((p) => p[2])), Math.max(...some.map((p) => p[3]))]);
  }
  return by > 1 ? thinned : points;
}

// lines: [{name, colour, points: [[step, mean, least, most], ...], dashed}]. One that has few points has dots, too.
function chart(title, lines, options = {}) {
  const wide = options.wide && innerWidth > 700, width = wide ? 860 : 430, height = wide ? 300 : 200;
  const left = 52, right = 8, top = 8, bottom = 24;
  const numbers = lines.map((line) => ({...line, points: thin(line.points.filter((p) => p[1] !== null && (!options.log || p[2] > 0)), wide ? 280 : 140)}))
    .filter((line) => line.points.length);
  const box = make("div.card" + (options.wide ? ".first" : ""), {"data-chart": title}, make("h3", {}, title));
  if (!numbers.length) return fill(box, {}, [make("p.soft", {}, "nothing yet")]);
  const all = numbers.flatMap((line) => line.points), scale = options.log ? Math.log10 : (x) => x;
  const x0 = Math.min(...all.map((p) => p[0])), x1 = Math.max(...all.map((p) => p[0]), x0 + 1);
  let y0 = Math.min(...all.map((p) => scale(p[2]))), y1 = Math.max(...all.map((p) => scale(p[3])));
  const rim = (y1 - y0) * .04 || Math.abs(y1) * .1 || 1;
  y0 -= rim, y1 += rim;
  const x = (v) => left + (v - x0) / (x1 - x0) * (width - left - right);
  const y = (v) => top + (y1 - scale(v)) / (y1 - y0) * (height - top - bottom);
  const at = (px, py) => `${px.toFixed(1)},${py.toFixed(1)}`;
  const picture = draw("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title});
  for (const mark of ticks(y0, y1, 4)) {
    const py = top + (y1 - mark) / (y1 - y0) * (height - top - bottom);
    picture.append(draw("line", {class: "axis", x1: left, x2: width - right, y1: py, y2: py}),
      draw("text", {x: left - 6, y: py + 4, "text-anchor": "end"}, short(options.log ? 10 ** mark : mark)));
  }
  for (const mark of ticks(x0, x1, 6)) picture.append(draw("text", {x: x(mark), y: height - 7, "text-anchor": "middle"}, short(mark)));
  for (const {colour, points: p} of numbers.filter((line) => !line.dashed)) {
    picture.append(draw("path", {class: "band " + colour, d: "M" + p.map((q) => at(x(q[0]), y(q[3]))).join("L") + "L" +
      p.slice().reverse().map((q) => at(x(q[0]), y(q[2]))).join("L") + "Z"}));
  }
  for (const line of numbers) {
    const p = line.points;
    picture.append(draw("path", {class: `curve ${line.colour}${line.dashed ? " dashed" : ""}`, "data-line": line.name,
      d: "M" + p.map((q) => at(x(q[0]), y(q[1]))).join("L")}));
    if (p.length < 12) for (const q of p) picture.append(draw("circle", {class: "dot " + line.colour, cx: x(q[0]), cy: y(q[1]), r: 2.5}));
  }
  const cursor = draw("line", {class: "axis", y1: top, y2: height - bottom, visibility: "hidden"});
  picture.append(cursor);
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    const step = x0 + ((event.clientX - frame.left) / frame.width * width - left) / (width - left - right) * (x1 - x0);
    const rows = numbers.map((line) => {
      const q = line.points.reduce((a, b) => Math.abs(b[0] - step) < Math.abs(a[0] - step) ? b : a);
      return `${line.name}, step ${q[0]}: ${short(q[1])}` + (q[2] !== q[3] ? ` (${short(q[2])} to ${short(q[3])})` : "");
    });
    cursor.setAttribute("visibility", "visible"), cursor.setAttribute("x1", x(step)), cursor.setAttribute("x2", x(step));
    tip(event, rows.join("\n"));
  });
  picture.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); tip(null); });
  return fill(box, {}, [picture, make("div.legend", {}, ...numbers.filter((line) => !line.dashed).map((line) =>
    make("span", {}, make("span.swatch." + line.colour), line.name)), numbers.some((line) => line.dashed) ? "dashed: validation" : null)]);
}

function tip(event, text) {
  $("tip").hidden = event === null;
  if (event === null) return;
  $("tip").textContent = text;
  const {width, height} = $("tip").getBoundingClientRect();
  $("tip").style.left = Math.min(event.clientX + 14, innerWidth - width - 6) + "px";
  $("tip").style.top = Math.min(event.clientY + 14, innerHeight - height - 6) + "px";
}

// --- a job ---

let log = false;

function curvesOf(job) { return (state.history.get(job) || {curves: {}}).curves; }

function linesOf(curve, dashed) {
  return state.chosen.filter((job) => curvesOf(job)[curve]).map((job) =>
    ({name: nameOf(job) + (dashed ? ", validation" : ""), colour: colour(job), points: curvesOf(job)[curve].points, dashed}));
}

function speedLines() {
  return state.chosen.filter((job) => curvesOf(job)["step seconds"] && state.about.has(job)).map((job) => {
    const samples = state.about.get(job).samples_per_step;
    return {name: `${nameOf(job)}, ${state.about.get(job).sample_unit}/s`, colour: colour(job), points: curvesOf(job)["step seconds"].points
      .map(([step, mean, least, most]) => [step, mean > 0 ? samples / mean : null, most > 0 ? samples / most : 0, least > 0 ? samples / least : samples / (mean || 1)])};
  });
}

function showCurves() {
  const names = Object.keys(curvesOf(state.job)).filter((name) => !["train/loss", "validation/loss", "step seconds"].includes(name));
  const box = make("input", {type: "checkbox", onclick: (event) => { log = event.target.checked; show(); }});
  box.checked = log;
  const loss = chart("loss", [...linesOf("train/loss"), ...linesOf("validation/loss", true)], {wide: true, log});
  loss.querySelector("h3").append(make("label.soft", {}, " ", box, " logarithmic"));
  const generated = (state.history.get(state.job) || {}).generated;
  return make("div.grid", {}, loss, chart("throughput", speedLines()), ...names.map((name) => chart(name, linesOf(name))),
    generated ? make("div.card.first", {}, make("h3", {}, "generated"), make("pre.wrap", {}, generated)) : null);
}

// A bar for each plan of each class of ranks, as long as what is in use when most is.
function showMemory(plan) {
  const whats = [...new Set(plan.classes.flatMap((one) => one.plans.flatMap((p) => p.uses.map((use) => use.what))))];
  const most = Math.max(1, ...plan.classes.map((one) => one.bytes));
  const rows = plan.classes.flatMap((one, c) => one.plans.map((p) => ({one, c, p})));
  const picture = draw("svg", {viewBox: `0 0 860 ${rows.length * 30 + 4}`, role: "img", "aria-label": "memory of a rank"});
  rows.forEach(({one, c, p}, row) => {
    let x = 190;
    picture.append(draw("text", {x: 0, y: row * 30 + 19}, `class ${c} (${one.ranks} ranks), ${p.name}`));
    for (const use of p.uses) {
      const width = use.bytes / most * 560;
      const bar = draw("rect", {class: "bar k" + whats.indexOf(use.what) % COLOURS, x, y: row * 30 + 5, width, height: 20});
      bar.addEventListener("pointermove", (event) => tip(event, `${use.what}: ${size(use.bytes)}`));
      bar.addEventListener("pointerleave", () => tip(null));
      picture.append(bar);
      x += width;
    }
    picture.append(draw("text", {x: x + 6, y: row * 30 + 19}, `${size(p.uses.reduce((sum, use) => sum + use.bytes, 0))} of ${size(one.bytes)}`));
  });
  return make("div.card", {}, make("h3", {}, "memory of a rank when most is in use, by what it is for"), picture,
    make("div.legend", {}, ...whats.map((what, i) => make("span", {}, make("span.swatch.k" + i % COLOURS), what))));
}

// Parts of the view that are asked for once, by what they are of.
const parts = new Map();
function part(key, path, show) {
  if (!parts.has(key)) {
    parts.set(key, make("div.grid", {}, make("p.soft.first", {}, "asking")));
    ask(path).then((value) => parts.get(key).replaceChildren(...show(value)),
      (error) => parts.get(key).replaceChildren(make("p.card.first", {}, error.message)));
  }
  return parts.get(key);
}

function showPlan() {
  const job = state.job;
  return part("plan " + job, `api/jobs/${job}/plan`, (plan) => {
    const memory = showMemory(plan), text = make("div.card", {}, make("h3", {}, "plan"), make("pre", {}, plan.text));
    const why = make("a", {href: `api/jobs/${job}/explain`, target: "_blank", rel: "noopener"}, "why tensors lie as they do, what that costs, what moves");
    for (const card of [memory, text]) card.classList.add("first");
    return [make("p.card.first", {}, why, " (the job is compiled again for it)"), memory, text];
  });
}

function showTimeline() {
  const job = state.job, about = state.about.get(job);
  if (!about || !about.trace) return make("p.card", {}, "the job is not traced: oneflow run --trace FILE");
  return part("trace " + job + about.status.state, `api/jobs/${job}/trace`, ({steps}) => {
    const board = make("div.first");
    const list = make("select", {"aria-label": "step", onchange: () => pickStep(steps[list.value])},
      ...steps.map((one, i) => make("option", {value: i}, `run ${one.run}, ${one.name}, step ${one.step + 1}: ${short(one.ms)} ms`)));
    const pickStep = (one) => ask(`api/jobs/${job}/trace?run=${one.run}&plan=${one.plan}&step=${one.step}`)
      .then((acts) => board.replaceChildren(timeline(acts)), (error) => board.replaceChildren(make("p", {}, error.message)));
    const last = steps.map((one) => one.name).lastIndexOf("train");
    list.value = last < 0 ? 0 : last;
    if (steps.length) pickStep(steps[list.value]);
    return [make("div.card.first", {}, make("h3", {}, "acts of a step"), list, board)];
  });
}

// A row for each queue. The wheel zooms, dragging moves.
function timeline(acts) {
  const row = 26, head = 18, canvas = make("canvas"), whole = acts.ms * 1000;
  let from = 0, to = whole, grip = null;
  const names = [...new Set(acts.queues.flatMap((queue) => queue.acts.map((act) => act[2])))];
  const label = 165;
  const paint = () => {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth || 800, height = head + acts.queues.length * row;
    canvas.width = width * ratio, canvas.height = height * ratio, canvas.style.height = height + "px";
    const style = getComputedStyle(document.documentElement), pen = canvas.getContext("2d");
    const of = (name) => style.getPropertyValue(name).trim();
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif", pen.textBaseline = "middle";
    const x = (us) => label + (us - from) / (to - from) * (width - label);
    pen.fillStyle = of("--soft");
    for (const mark of ticks(from, to, 6)) pen.fillText(short(mark / 1000) + " ms", x(mark), head / 2);
    acts.queues.forEach((queue, i) => {
      const top = head + i * row;
      pen.save();
      pen.beginPath(), pen.rect(label, top, width - label, row), pen.clip();
      for (const [begin, us, name] of queue.acts) {
        if (begin + us < from || begin > to) continue;
        const wide = Math.max(x(begin + us) - x(begin), .7);
        pen.fillStyle = of("--c" + names.indexOf(name) % COLOURS), pen.fillRect(x(begin), top + 3, wide, row - 6);
        if (wide > 40) {
          pen.save(), pen.beginPath(), pen.rect(x(begin), top, wide - 3, row), pen.clip();
          pen.fillStyle = of("--card"), pen.fillText(name, Math.max(x(begin), label) + 4, top + row / 2), pen.restore();
        }
      }
      pen.restore();
      pen.fillStyle = of("--ink"), pen.fillText(queue.name, 0, top + row / 2);
    });
  };
  const clamp = () => {
    const wide = Math.min(to - from, whole);
    from = Math.max(0, Math.min(from, whole - wide)), to = from + wide;
  };
  const at = (event) => from + (event.offsetX - label) / (canvas.clientWidth - label) * (to - from);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const fixed = at(event), factor = event.deltaY > 0 ? 1.25 : .8;
    if (factor < 1 && to - from < 5) return;
    from = fixed - (fixed - from) * factor, to = fixed + (to - fixed) * factor;
    clamp(), paint();
  }, {passive: false});
  canvas.addEventListener("pointerdown", (event) => { grip = at(event), canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { grip = null; });
  canvas.addEventListener("pointerleave", () => tip(null));
  canvas.addEventListener("pointermove", (event) => {
    if (grip !== null) {
      const by = grip - at(event);
      from += by, to += by, clamp(), paint();
      return;
    }
    const queue = acts.queues[Math.floor((event.offsetY - head) / row)], us = at(event);
    const act = queue && queue.acts.find(([begin, took]) => begin <= us && us <= begin + took);
    tip(act ? event : null, act && `${act[2]}\n${short(act[1])} us, begun ${short(act[4])} us after it could\nwaited last for: ${act[3]}`);
  });
  const board = make("div", {"data-acts": acts.queues.reduce((sum, queue) => sum + queue.acts.length, 0)}, canvas,
    make("p.soft", {}, `${short(acts.ms)} ms` + (acts.left_out ? `, without the last ${acts.left_out} acts` : "") + "; the wheel zooms, dragging moves"));
  new ResizeObserver(paint).observe(canvas);
  return board;
}

function rows(head, lines) {
  return make("div.card.scroll", {}, make("table", {}, make("thead", {}, make("tr", {}, ...head.map((text) => make("th", {}, text)))),
    make("tbody", {}, ...lines.map((line) => make("tr", {}, ...line.map((cell) => make("td", {}, cell)))))));
}

function showEvents() {
  const events = (state.history.get(state.job) || {events: []}).events || [];
  return make("div.card", {}, ...events.slice().reverse().map((event) =>
    make("p.message", {}, make("span.soft", {}, `${time(event.time_us)}  ${event.kind}  `), event.text)));
}

function showProcesses(about) {
  return rows(["process", "node", "pid", "parts done", "state"], about.workers.map((worker) =>
    [String(worker.process), worker.daemon, String(worker.pid), String(worker.parts), worker.state]));
}

function showHead(about) {
  const status = about.status, told = state.history.get(state.job), done = (told || {}).steps || 0;
  const speed = (curvesOf(state.job)["step seconds"] || {}).last;
  const words = [about.layout, `${status.processes} x ${status.devices_per_process} ${status.device}`, `attempt ${status.attempt} of ${status.attempts}`,
    "by " + status.user, "submitted " + time(status.submitted_us), status.finished_us ? "ended " + time(status.finished_us) : "",
    about.checkpoints ? "checkpoints in " + about.checkpoints : "", about.tensorboard ? "TensorBoard: " + about.tensorboard : ""];
  const left = status.state === "RUNNING" && speed > 0 && about.steps > done ? ", " + span((about.steps - done) * speed) + " to go" : "";
  const bar = make("progress", {max: about.steps || 1, value: done});
  return make("div.card", {}, make("div.head", {}, make("h2", {}, `job ${status.job} ${status.name}`),
      make("span.state." + status.state, {}, status.state.toLowerCase()),
      make("span.soft", {}, told ? `step ${done} of ${about.steps}${left}` : `${about.steps} steps`)),
    make("div.soft", {}, words.filter((word) => word).join(", ")), about.steps ? bar : null,
    status.message ? make("p.message", {}, (status.state === "QUEUED" ? "waits: " : "") + status.message) : null,
    about.kept ? null : make("p.message", {}, "its config, plan and events are no longer kept"));
}

function showTab(about) {
  switch (state.tab) {
    case "plan": return showPlan();
    case "timeline": return showTimeline();
    case "events": return showEvents();
    case "processes": return showProcesses(about);
    case "config": return make("div.card", {}, make("pre", {}, about.config));
    default: return showCurves();
  }
}

let due = false;
function show(trouble) {
  if (trouble) return $("job").replaceChildren(make("p.card", {}, trouble));
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    const about = state.about.get(state.job);
    if (!about) return;
    const tabs = make("nav", {}, ...TABS.map((tab) => make(tab === state.tab ? "button.on" : "button", {onclick: () => {
      state.tab = tab;
      writeAddress();
      show();
    }}, tab)));
    const {trouble: broken} = state.history.get(state.job) || {};
    $("job").replaceChildren(showHead(about), tabs, broken ? make("p.card", {}, broken) : "", showTab(about));
  });
}

// --- nodes ---

async function showNodes(visible) {
  $("nodes").hidden = !visible, $("list").hidden = $("job").hidden = visible;
  document.querySelector("main").className = visible ? "wide" : "";
  $("show-nodes").className = visible ? "on" : "", $("show-jobs").className = visible ? "" : "on";
  if (!visible) return;
  const {nodes} = await ask("api/nodes");
  const use = (used, all) => all ? make("span", {}, `${used} of ${all} `, make("meter", {max: all, value: used, "aria-label": "devices in use"})) : "none";
  $("nodes").replaceChildren(rows(["node", "host", "state", "cpu devices", "cuda devices", "cores", "memory", "links"], nodes.map((node) => [node.name, node.host,
    (node.away ? "away" : "up") + (node.drained ? ", drained" : ""), use(node.used_cpu, node.cpu), use(node.used_cuda, node.cuda),
    node.cores || "", node.memory ? `${(node.used_memory / 1e9).toFixed(1)} of ${(node.memory / 1e9).toFixed(1)} GB` : "",
    node.links.map((link) => link.name + (link.mbit ? ` ${link.mbit / 1000}G` : "") + (link.kind == "ethernet" ? "" : " " + link.kind)).join(", ")])));
}
setInterval(() => $("nodes").hidden || showNodes(true).catch(fail), 2000);

$("show-jobs").addEventListener("click", () => showNodes(false));
$("show-nodes").addEventListener("click", () => showNodes(true).catch(fail));
$("older").addEventListener("click", () => askOlder().catch(fail));
window.addEventListener("hashchange", () => { readAddress(); look(); });
readAddress();
askJobs().then(look).catch(fail);
)page";

}  // namespace oneflow
