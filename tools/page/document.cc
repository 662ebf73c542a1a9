// The page and its style. Colours are variables, of which there are two sets: for light and for dark.
#include "tools/page/document.h"

namespace oneflow {

const char kPage[] = R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>oneflow</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css">
</head>
<body data-errors="0">
<header>
  <h1>oneflow</h1>
  <nav><button id="show-jobs" class="on">jobs</button><button id="show-nodes">nodes</button></nav>
  <span id="counts" class="soft"></span>
  <span id="live" class="soft">connecting</span>
</header>
<main>
  <section id="list">
    <table><thead><tr><th></th><th>job</th><th>name</th><th>state</th><th>size</th></tr></thead>
      <tbody id="jobs"></tbody></table>
    <button id="older" hidden>older jobs</button>
  </section>
  <section id="job"><p class="soft">no job yet</p></section>
  <section id="nodes" hidden></section>
</main>
<div id="tip" hidden></div>
<script src="job.js"></script>
<script src="page.js"></script>
</body>
</html>
)page";

const char kPageStyle[] = R"page(:root {
  --ink: #1d2733; --soft: #5b6875; --line: #d8dee5; --back: #f4f6f9; --card: #fff; --accent: #2166c4; --bad: #c2362b;
  --good: #1f8a4c; --wait: #a06a00;
  --c0: #2166c4; --c1: #d1495b; --c2: #1f8a4c; --c3: #8e5bc0; --c4: #c27a00; --c5: #0e8a93; --c6: #b04a8f;
  --c7: #6b7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e3e8ee; --soft: #94a1af; --line: #2c3642; --back: #12171d; --card: #1a2129; --accent: #6ba6f5;
    --bad: #f0796e;
    --good: #5cc98a; --wait: #e0ab4a;
    --c0: #6ba6f5; --c1: #f0808e; --c2: #5cc98a; --c3: #bb94ea; --c4: #eab04f; --c5: #4fc4cd; --c6: #e58cc7;
    --c7: #a3adb8;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; color: var(--ink); background: var(--back); font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; padding: 9px 16px; background: var(--card);
         border-bottom: 1px solid var(--line); position: sticky; top: 0; z-index: 2; }
h1 { margin: 0; font-size: 17px; }
h2 { margin: 0; font-size: 16px; overflow-wrap: anywhere; }
h3 { margin: 0 0 4px; font-size: 13px; font-weight: 600; }
.soft { color: var(--soft); }
#live { margin-left: auto; }
#live.on::before { content: "\25cf\a0"; color: var(--good); }
#live.off::before { content: "\25cf\a0"; color: var(--bad); }
button { font: inherit; color: inherit; padding: 3px 11px; border: 1px solid var(--line); border-radius: 6px;
         background: var(--card); cursor: pointer; }
button.on { background: var(--accent); border-color: var(--accent); color: var(--card); }
nav { display: flex; gap: 6px; flex-wrap: wrap; }
main { display: grid; grid-template-columns: minmax(320px, 430px) minmax(0, 1fr); gap: 14px; padding: 14px 16px;
  align-items: start; }
main.wide { grid-template-columns: minmax(0, 1fr); }
#list, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; }
#list { overflow-x: auto; }
#job { display: grid; gap: 12px; min-width: 0; }
#job > *, .grid > * { min-width: 0; }
p.card { margin: 0; }
.grid { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); }
.grid > .first { grid-column: 1 / -1; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 12px; }
th, td { padding: 3px 8px 3px 0; white-space: nowrap; }
td.name { max-width: 180px; overflow: hidden; text-overflow: ellipsis; }
tbody tr { border-top: 1px solid var(--line); }
#jobs tr { cursor: pointer; }
#jobs tr.focus { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 4px; }
input[type=checkbox] { accent-color: var(--accent); vertical-align: middle; }
.state { font-size: 12px; font-weight: 600; }
.FINISHED { color: var(--good); } .FAILED { color: var(--bad); } .RUNNING, .STARTING { color: var(--accent); }
.QUEUED { color: var(--wait); } .CANCELLED { color: var(--soft); }
.head { display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: baseline; }
.message { margin: 4px 0 0; overflow-wrap: anywhere; white-space: pre-wrap; }
progress { width: 100%; height: 7px; accent-color: var(--accent); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--soft); font-size: 11px; }
.axis { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.dashed { stroke-dasharray: 5 4; }
.dot { stroke-width: 1.5; fill: var(--card); }
.band { opacity: .16; stroke: none; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12px; color: var(--soft); margin-top: 4px; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px;
  vertical-align: -1px; }
.k0 { --k: var(--c0); } .k1 { --k: var(--c1); } .k2 { --k: var(--c2); } .k3 { --k: var(--c3); }
.k4 { --k: var(--c4); } .k5 { --k: var(--c5); } .k6 { --k: var(--c6); } .k7 { --k: var(--c7); }
.swatch { background: var(--k); } .curve, .dot { stroke: var(--k); } .band, .bar { fill: var(--k); }
pre { margin: 0; font: 12px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; overflow: auto; max-height: 70vh;
  white-space: pre; }
pre.wrap { white-space: pre-wrap; overflow-wrap: anywhere; }
canvas { display: block; width: 100%; touch-action: pan-y; }
#tip { position: fixed; z-index: 3; pointer-events: none; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px;
       padding: 5px 9px; font-size: 12px; white-space: pre; box-shadow: 0 3px 12px rgb(0 0 0 / .25); max-width: 90vw; }
a { color: var(--accent); }
.scroll { overflow-x: auto; }
@media (max-width: 900px) { main { grid-template-columns: minmax(0, 1fr); padding: 10px; }
  #list { max-height: 40vh; overflow: auto; } }
)page";

}  // namespace oneflow
