// How the page looks.
#include "compiler/explain/page.h"

namespace oneflow {

const char kGraphPageStyle[] = R"page(
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
#found { position: absolute; right: 0; top: 30px; z-index: 5; width: 430px; max-height: 330px; overflow: auto;
  background: #fff;
         border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 6px 22px #0002; }
#found div { padding: 3px 10px; cursor: pointer; }
#found div:hover { background: #e8f0fb; }
#found:empty { display: none; }
#drawing { overflow: auto; position: relative; }
#drawing svg { display: block; margin: 14px auto; }
aside { display: flex; flex-direction: column; min-height: 0; background: #fff; border-left: 1px solid var(--line); }
#told { flex: 1 1 45%; overflow: auto; padding: 12px 14px; border-bottom: 1px solid var(--line); }
#told p { margin: 0; font: 11px/1.5 "DejaVu Sans Mono", ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
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
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 4px;
  vertical-align: -1px; }
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
)page";

}  // namespace oneflow
