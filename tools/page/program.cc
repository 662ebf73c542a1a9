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
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
    : `${Math.floor(s / 60)}:${two(s % 60)}`;
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
  if (mine && (!known || JSON.stringify(mine.state + mine.attempt +
    mine.message) !== known.seen)) await askJob(state.job);
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
      if (curve.from > 0) curve.points = former.curves[name].points.slice(0, curve.from).concat(curve.points),
        curve.from = 0;
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
  $("counts").textContent = Object.entries(state.counts).filter(([, n]) => n > 0)
    .map(([name, n]) => `${n} ${name.toLowerCase()}`).join(", ");
  $("jobs").replaceChildren(...state.jobs.map((job) => {
    const chosen = state.chosen.includes(job.job);
    const box = make("input", {type: "checkbox", "aria-label": "show the curves of job " + job.job,
      onclick: (event) => {
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

// --- nodes ---

async function showNodes(visible) {
  $("nodes").hidden = !visible, $("list").hidden = $("job").hidden = visible;
  document.querySelector("main").className = visible ? "wide" : "";
  $("show-nodes").className = visible ? "on" : "", $("show-jobs").className = visible ? "" : "on";
  if (!visible) return;
  const {nodes} = await ask("api/nodes");
  const use = (used, all) => all ? make("span", {}, `${used} of ${all} `, make("meter",
    {max: all, value: used, "aria-label": "devices in use"})) : "none";
  $("nodes").replaceChildren(rows(["node", "host", "state", "cpu devices", "cuda devices", "cores", "memory", "links"],
    nodes.map((node) => [node.name, node.host,
    (node.away ? "away" : "up") + (node.drained ? ", drained" : ""), use(node.used_cpu, node.cpu),
      use(node.used_cuda, node.cuda),
    node.cores || "", node.memory ? `${(node.used_memory / 1e9).toFixed(1)} of ${(node.memory / 1e9).toFixed(1)} GB`
      : "",
    node.links.map((link) => link.name + (link.mbit ? ` ${link.mbit / 1000}G` : "") +
      (link.kind == "ethernet" ? "" : " " + link.kind)).join(", ")])));
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
