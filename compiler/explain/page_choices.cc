// What clicks, the search field and the address of the page choose.
#include "compiler/explain/page.h"

namespace oneflow {

const char kGraphPageChoices[] = R"page(
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
  const named = ([n]) => n.n.toLowerCase().includes(query);
  const hits = query === "" ? [] : graph.nodes.map((n, i) => [n, i]).filter(named).slice(0, 40);
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
)page";

}  // namespace oneflow
