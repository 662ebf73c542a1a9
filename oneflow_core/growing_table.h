// Tables that plug-ins add rows to while a program runs.
#pragma once

#include <deque>
#include <utility>
#include <vector>

namespace oneflow {

// The program's table of rows of type `Row`: what `listed` gives at the first call, then the rows added since. Rows
// keep their places in memory. `kTag` tells several tables of one type apart. Not thread-safe while rows are added.
template <typename Row, int kTag = 0>
std::deque<Row>& GrowingTable(std::vector<Row> (*listed)() = nullptr) {
  static auto* const rows = [listed] {
    auto* const made = new std::deque<Row>();
    if (listed == nullptr) return made;
    for (Row& row : listed()) made->push_back(std::move(row));
    return made;
  }();
  return *rows;
}

}  // namespace oneflow
