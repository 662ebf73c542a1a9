#include "tools/bench/op_table.h"

#include <algorithm>

namespace oneflow {

std::vector<OpRow> OpTable(const Counters& counters, const std::map<std::string, OpWork>& work) {
  std::vector<OpRow> rows;
  for (const pb::OpTime& time : counters.ops) {
    if (time.calls() == 0) continue;
    OpRow row{.op = time.op(), .seconds = time.seconds(), .share = time.seconds() / counters.run_seconds};
    if (const auto known = work.find(time.op()); known != work.end()) {
      row.calls = known->second.calls;
      row.flops_per_s = known->second.flops / time.seconds();
      row.bytes_per_s = known->second.bytes / time.seconds();
      row.floor_seconds = known->second.floor_seconds;
    }
    rows.push_back(row);
  }
  std::sort(rows.begin(), rows.end(), [](const OpRow& a, const OpRow& b) { return a.seconds > b.seconds; });
  return rows;
}

}  // namespace oneflow
