// The markup of the page, and its parts put together. Names from the graph enter the document only as text nodes.
#include "compiler/explain/page.h"

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr char kHead[] = R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>plan explain</title>
<style>)page";

constexpr char kBody[] = R"page(</style>
</head>
<body>
<header>
  <div><h1 id="title"></h1><div id="sums" class="soft"></div></div>
  <div id="graphs"></div>
  <div id="parts"></div>
  <div><button id="close">one level</button> <button id="open">open all</button>
       <button id="less" title="smaller">&minus;</button> <button id="more" title="larger">+</button></div>
  <div class="search"><input id="query" type="search" placeholder="find a tensor" autocomplete="off"><div
    id="found"></div></div>
  <div class="legend" id="legend"></div>
</header>
<main id="drawing"></main>
<aside>
  <section id="told"></section>
  <section id="dearest"><h2>Dearest boxings of a step</h2><table><thead><tr><th>tensor</th><th>change</th>
    <th class="number">bytes</th><th class="number">time</th></tr></thead><tbody id="rows"></tbody></table></section>
</aside>
<script type="application/json" id="data">)page";

constexpr char kScript[] = R"page(</script>
<script>
)page";

constexpr char kEnd[] = R"page(</script>
</body>
</html>
)page";

}  // namespace

std::string GraphPage(absl::string_view data) {
  return absl::StrCat(kHead, kGraphPageStyle, kBody, data, kScript, kGraphPagePanels, kGraphPageDrawing,
                      kGraphPageChoices, kEnd);
}

}  // namespace oneflow
