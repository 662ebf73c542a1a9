#include "compiler/plan/node_order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace oneflow {
namespace {

// Counts the remaining readers of each buffer.
class Readers {
 public:
  Readers(absl::Span<const OrderedNode> nodes, size_t num_buffers) : left_(num_buffers, 0) {
    for (const OrderedNode& node : nodes) {
      for (const int buffer : node.reads) ++left_[buffer];
    }
  }
  int left(int buffer) const { return left_[buffer]; }
  // True if that was the last reading.
  bool Read(int buffer) { return --left_[buffer] == 0; }

 private:
  std::vector<int> left_;
};

class Scheduler {
 public:
  Scheduler(absl::Span<const OrderedNode> nodes, absl::Span<const int64_t> bytes)
      : nodes_(nodes), bytes_(bytes), readers_(nodes, bytes.size()), readers_of_(bytes.size()), missing_(nodes.size()) {
    waiters_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      missing_[i] = static_cast<int>(nodes[i].after.size());
      for (const int before : nodes[i].after) waiters_[before].push_back(static_cast<int>(i));
      for (const int buffer : nodes[i].reads) readers_of_[buffer].push_back(static_cast<int>(i));
    }
  }

  std::vector<int> Run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (missing_[i] == 0) MakeReady(static_cast<int>(i));
    }
    std::vector<int> order;
    while (!shrinking_.empty() || !growing_.empty()) {
      std::set<int>& from = shrinking_.empty() ? growing_ : shrinking_;
      const int node = *from.begin();
      from.erase(from.begin());
      order.push_back(node);
      Finish(node);
    }
    return order;
  }

 private:
  // The memory that the node takes, less the memory that it frees.
  int64_t Growth(int node) const {
    int64_t growth = 0;
    for (const int buffer : nodes_[node].makes) growth += bytes_[buffer];
    for (const int buffer : nodes_[node].reads) {
      if (readers_.left(buffer) == std::count(nodes_[node].reads.begin(), nodes_[node].reads.end(), buffer)) {
        growth -= bytes_[buffer];
      }
    }
    return growth;
  }

  void MakeReady(int node) { (Growth(node) > 0 ? growing_ : shrinking_).insert(node); }

  void Finish(int node) {
    for (const int waiter : waiters_[node]) {
      if (--missing_[waiter] == 0) MakeReady(waiter);
    }
    for (const int buffer : nodes_[node].reads) {
      readers_.Read(buffer);
      if (readers_.left(buffer) != 1) continue;
      // The last reader frees it now.
      for (const int reader : readers_of_[buffer]) {
        if (growing_.erase(reader) > 0) MakeReady(reader);
      }
    }
  }

  const absl::Span<const OrderedNode> nodes_;
  const absl::Span<const int64_t> bytes_;
  Readers readers_;
  std::vector<std::vector<int>> readers_of_;  // by buffer
  std::vector<int> missing_;
  std::vector<std::vector<int>> waiters_;
  std::set<int> shrinking_, growing_;  // ready nodes
};

}  // namespace

int64_t BytesAtPeak(absl::Span<const OrderedNode> nodes, absl::Span<const int64_t> buffer_bytes,
                    absl::Span<const int> order) {
  Readers readers(nodes, buffer_bytes.size());
  int64_t in_use = 0, peak = 0;
  for (const int node : order) {
    for (const int buffer : nodes[node].makes) in_use += buffer_bytes[buffer];
    peak = std::max(peak, in_use);
    for (const int buffer : nodes[node].makes) in_use -= readers.left(buffer) == 0 ? buffer_bytes[buffer] : 0;
    for (const int buffer : nodes[node].reads) in_use -= readers.Read(buffer) ? buffer_bytes[buffer] : 0;
  }
  return peak;
}

std::vector<int> OrderToLiveBriefly(absl::Span<const OrderedNode> nodes, absl::Span<const int64_t> buffer_bytes) {
  std::vector<int> given(nodes.size());
  std::iota(given.begin(), given.end(), 0);
  std::vector<int> found = Scheduler(nodes, buffer_bytes).Run();
  const bool better = BytesAtPeak(nodes, buffer_bytes, found) < BytesAtPeak(nodes, buffer_bytes, given);
  return better ? found : given;
}

}  // namespace oneflow
