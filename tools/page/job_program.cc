// The part of the page's program that draws: charts, and what is shown of a job. It loads first and runs nothing by
// itself; the elements, words and state that it works with are program.cc's.
#include "tools/page/document.h"

namespace oneflow {

const char kPageJobProgram[] = R"page("use strict";

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
    thinned.push([some[Math.floor(some.length / 2)][0], sum / some.length, Math.min(...some.map((p) => p[2])),
      Math.max(...some.map((p) => p[3]))]);
  }
  return by > 1 ? thinned : points;
}

// lines: [{name, colour, points: [[step, mean, least, most], ...], dashed}]. One that has few points has dots, too.
function chart(title, lines, options = {}) {
  const wide = options.wide && innerWidth > 700, width = wide ? 860 : 430, height = wide ? 300 : 200;
  const left = 52, right = 8, top = 8, bottom = 24;
  const numbers = lines.map((line) => ({...line, points: thin(line.points.filter((p) => p[1] !== null &&
    (!options.log || p[2] > 0)), wide ? 280 : 140)}))
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
  for (const mark of ticks(x0, x1, 6)) picture.append(draw("text", {x: x(mark), y: height - 7, "text-anchor": "middle"},
    short(mark)));
  for (const {colour, points: p} of numbers.filter((line) => !line.dashed)) {
    picture.append(draw("path", {class: "band " + colour, d: "M" + p.map((q) => at(x(q[0]), y(q[3]))).join("L") + "L" +
      p.slice().reverse().map((q) => at(x(q[0]), y(q[2]))).join("L") + "Z"}));
  }
  for (const line of numbers) {
    const p = line.points;
    picture.append(draw("path", {class: `curve ${line.colour}${line.dashed ? " dashed" : ""}`, "data-line": line.name,
      d: "M" + p.map((q) => at(x(q[0]), y(q[1]))).join("L")}));
    if (p.length < 12) for (const q of p) picture.append(draw("circle", {class: "dot " + line.colour, cx: x(q[0]),
      cy: y(q[1]), r: 2.5}));
  }
  const cursor = draw("line", {class: "axis", y1: top, y2: height - bottom, visibility: "hidden"});
  picture.append(cursor);
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    const step = x0 + ((event.clientX - frame.left) / frame.width * width - left) / (width - left - right) * (x1 - x0);
    const rows = numbers.map((line) => {
      const q = line.points.reduce((a, b) => Math.abs(b[0] - step) < Math.abs(a[0] - step) ? b : a);
      return `${line.name}, step ${q[0]}: ${short(q[1])}` + (q[2] !== q[3] ? ` (${short(q[2])} to ${short(q[3])})`
        : "");
    });
    cursor.setAttribute("visibility", "visible"), cursor.setAttribute("x1", x(step)),
      cursor.setAttribute("x2", x(step));
    tip(event, rows.join("\n"));
  });
  picture.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); tip(null); });
  return fill(box, {}, [picture, make("div.legend", {}, ...numbers.filter((line) => !line.dashed).map((line) =>
    make("span", {}, make("span.swatch." + line.colour), line.name)), numbers.some((line) => line.dashed)
      ? "dashed: validation" : null)]);
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
    ({name: nameOf(job) + (dashed ? ", validation" : ""), colour: colour(job), points: curvesOf(job)[curve].points,
      dashed}));
}

function speedLines() {
  return state.chosen.filter((job) => curvesOf(job)["step seconds"] && state.about.has(job)).map((job) => {
    const about = state.about.get(job);
    const of = (step) => (about.ramp.find(([end]) => step < end) || [0, about.samples_per_step])[1];
    return {name: `${nameOf(job)}, ${about.sample_unit}/s`, colour: colour(job),
      points: curvesOf(job)["step seconds"].points
      .map(([step, mean, least, most]) => [step, mean > 0 ? of(step) / mean : null, most > 0 ? of(step) / most : 0,
        least > 0 ? of(step) / least : of(step) / (mean || 1)])};
  });
}

function showCurves() {
  const names = Object.keys(curvesOf(state.job)).filter((name) => !["train/loss", "validation/loss",
    "step seconds"].includes(name));
  const box = make("input", {type: "checkbox", onclick: (event) => { log = event.target.checked; show(); }});
  box.checked = log;
  const loss = chart("loss", [...linesOf("train/loss"), ...linesOf("validation/loss", true)], {wide: true, log});
  loss.querySelector("h3").append(make("label.soft", {}, " ", box, " logarithmic"));
  const generated = (state.history.get(state.job) || {}).generated;
  return make("div.grid", {}, loss, chart("throughput", speedLines()), ...names
    .map((name) => chart(name, linesOf(name))),
    generated ? make("div.card.first", {}, make("h3", {}, "generated"), make("pre.wrap", {}, generated)) : null);
}

// A bar for each plan of each class of ranks, as long as what is in use when most is.
function showMemory(plan) {
  const whats = [...new Set(plan.classes.flatMap((one) => one.plans.flatMap((p) => p.uses.map((use) => use.what))))];
  const most = Math.max(1, ...plan.classes.map((one) => one.bytes));
  const rows = plan.classes.flatMap((one, c) => one.plans.map((p) => ({one, c, p})));
  const picture = draw("svg", {viewBox: `0 0 860 ${rows.length * 30 + 4}`, role: "img",
    "aria-label": "memory of a rank"});
  rows.forEach(({one, c, p}, row) => {
    let x = 190;
    picture.append(draw("text", {x: 0, y: row * 30 + 19}, `class ${c} (${one.ranks} ranks), ${p.name}`));
    for (const use of p.uses) {
      const width = use.bytes / most * 560;
      const bar = draw("rect", {class: "bar k" + whats.indexOf(use.what) % COLOURS, x, y: row * 30 + 5, width,
        height: 20});
      bar.addEventListener("pointermove", (event) => tip(event, `${use.what}: ${size(use.bytes)}`));
      bar.addEventListener("pointerleave", () => tip(null));
      picture.append(bar);
      x += width;
    }
    picture.append(draw("text", {x: x + 6, y: row * 30 + 19},
      `${size(p.uses.reduce((sum, use) => sum + use.bytes, 0))} of ${size(one.bytes)}`));
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
    const why = make("a", {href: `api/jobs/${job}/explain`, target: "_blank", rel: "noopener"},
      "why tensors lie as they do, what that costs, what moves");
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
      ...steps.map((one, i) => make("option", {value: i},
        `run ${one.run}, ${one.name}, step ${one.step + 1}: ${short(one.ms)} ms`)));
    const pickStep = (one) => ask(`api/jobs/${job}/trace?run=${one.run}&plan=${one.plan}&step=${one.step}`)
      .then((acts) => board.replaceChildren(timeline(acts)), (error) => board.replaceChildren(make("p", {},
        error.message)));
    const last = steps.map((one) => one.name).lastIndexOf("train");
    list.value = last < 0 ? 0 : last;
    if (steps.length) pickStep(steps[list.value]);
    return [make("div.card.first", {}, make("h3", {}, "acts of a step"), list, board)];
  });
}

function boardOf(acts, canvas) {
  return make("div", {"data-acts": acts.queues.reduce((sum, queue) => sum + queue.acts.length, 0)}, canvas,
    make("p.soft", {}, `${short(acts.ms)} ms` + (acts.left_out ? `, without the last ${acts.left_out} acts` : "") +
      "; the wheel zooms, dragging moves"));
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
    tip(act ? event : null, act &&
      `${act[2]}\n${short(act[1])} us, begun ${short(act[4])} us after it could\nwaited last for: ${act[3]}`);
  });
  const board = boardOf(acts, canvas);
  new ResizeObserver(paint).observe(canvas);
  return board;
}

function rows(head, lines) {
  return make("div.card.scroll", {}, make("table", {}, make("thead", {}, make("tr", {}, ...head
    .map((text) => make("th", {}, text)))),
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
  const words = [about.layout, `${status.processes} x ${status.devices_per_process} ${status.device}`,
    `attempt ${status.attempt} of ${status.attempts}`,
    "by " + status.user, "submitted " + time(status.submitted_us), status.finished_us ? "ended " +
      time(status.finished_us) : "",
    about.checkpoints ? "checkpoints in " + about.checkpoints : "", about.tensorboard ? "TensorBoard: " +
      about.tensorboard : ""];
  const left = status.state === "RUNNING" && speed > 0 && about.steps > done ? ", " +
    span((about.steps - done) * speed) + " to go" : "";
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
)page";

}  // namespace oneflow
