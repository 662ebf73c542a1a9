#include "actor/checkpoint/box.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

int64_t End(const Box& box, int d) { return box.start[d] + box.extent[d]; }

// The intersection. REQUIRES: the same rank.
Box Intersection(const Box& a, const Box& b) {
  Box common = a;
  for (int d = 0; d < a.rank(); ++d) {
    common.start[d] = std::max(a.start[d], b.start[d]);
    common.extent[d] = std::max<int64_t>(0, std::min(End(a, d), End(b, d)) - common.start[d]);
  }
  return common;
}

// The index of the element at logical coordinates `at` in the box.
int64_t PlaceIn(const Box& box, const std::vector<int64_t>& at) {
  int64_t place = 0;
  for (int d = 0; d < box.rank(); ++d) place = place * box.extent[d] + at[d] - box.start[d];
  return place;
}

// A coordinate inside `whole` that no box crosses: returns the number of boxes before it, as near to half of them as
// possible; 0 if there is none. Orders the boxes by their start.
size_t FindCut(const Box& whole, int d, std::vector<Box>& boxes) {
  std::sort(boxes.begin(), boxes.end(), [d](const Box& a, const Box& b) { return a.start[d] < b.start[d]; });
  const auto distance = [half = boxes.size() / 2](size_t i) { return i < half ? half - i : i - half; };
  int64_t reached = whole.start[d];
  size_t best = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (i > 0 && boxes[i].start[d] >= reached && (best == 0 || distance(i) < distance(best))) best = i;
    reached = std::max(reached, End(boxes[i], d));
  }
  return best;
}

}  // namespace

int64_t Box::count() const {
  int64_t count = 1;
  for (const int64_t size : extent) count *= size;
  return count;
}

std::string Box::ToString() const {
  std::string text = "[";
  for (int d = 0; d < rank(); ++d) absl::StrAppend(&text, d > 0 ? "," : "", start[d], ":", End(*this, d));
  return text + "]";
}

Box WholeBox(std::vector<int64_t> dims) { return {std::vector<int64_t>(dims.size(), 0), std::move(dims)}; }

void ForEachCommonRun(const Box& a, const Box& b, absl::FunctionRef<void(int64_t, int64_t, int64_t)> fn) {
  const Box common = Intersection(a, b);
  const int64_t count = common.count();
  if (count == 0) return;
  int outer = common.rank();  // dimensions from here on are within a run
  int64_t length = 1;
  while (outer > 0) {
    length *= common.extent[--outer];
    if (common.extent[outer] != a.extent[outer] || common.extent[outer] != b.extent[outer]) break;
  }
  std::vector<int64_t> at = common.start;
  for (int64_t done = 0; done < count; done += length) {
    fn(PlaceIn(a, at), PlaceIn(b, at), length);
    for (int d = outer; d-- > 0;) {
      if (++at[d] < End(common, d)) break;
      at[d] = common.start[d];
    }
  }
}

bool Tile(const Box& whole, std::vector<Box> boxes) {
  if (boxes.size() <= 1) return boxes.size() == 1 && boxes[0] == whole;
  for (int d = 0; d < whole.rank(); ++d) {
    const size_t below = FindCut(whole, d, boxes);
    if (below == 0) continue;
    const int64_t cut = boxes[below].start[d];
    Box low = whole, high = whole;
    low.extent[d] = cut - whole.start[d];
    high.start[d] = cut;
    high.extent[d] = End(whole, d) - cut;
    std::vector<Box> above(boxes.begin() + static_cast<int64_t>(below), boxes.end());
    boxes.resize(below);
    return Tile(low, std::move(boxes)) && Tile(high, std::move(above));
  }
  return false;
}

}  // namespace oneflow
