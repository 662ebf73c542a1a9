// The whole job: summaries, and the most important facts first.
#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/explain/explain.h"
#include "compiler/explain/precision.h"
#include "compiler/explain/scopes.h"
#include "compiler/explain/words.h"
#include "compiler/plan/variables.h"

namespace oneflow {
namespace {

std::string MeshText(const Mesh& mesh) {
  return absl::StrCat(
      "[",
      absl::StrJoin(mesh.axes(), ",",
                    [](std::string* out, const Axis& axis) { absl::StrAppend(out, axis.name, "=", axis.size); }),
      "]");
}

// Boxings that differ only in the layer to which they belong.
struct Group {
  std::vector<const BoxingFacts*> boxings;
  double seconds = 0;  // of a step, all together
  LinkBytes bytes;
};

// The nodes that read `value` itself, boxings left out.
std::vector<NodeId> ReadersOf(const std::vector<std::vector<NodeId>>& consumers, const GraphFacts& facts,
                              ValueId value) {
  std::vector<NodeId> readers;
  for (NodeId reader : consumers[value]) {
    if (!facts.Is(facts.boxed.node(reader), OpKind::kBoxing)) readers.push_back(reader);
  }
  return readers;
}

class GraphText {
 public:
  GraphText(const JobFacts& job, const GraphFacts& facts)
      : job_(job), facts_(facts), graph_(facts.boxed), scopes_(graph_, *job.ops), consumers_(graph_.Consumers()) {}

  std::string Text() {
    Summary();
    Origins();
    Boxings();
    return std::move(out_);
  }

 private:
  void Summary() {
    int num_nodes = 0;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) num_nodes += !facts_.Is(graph_.node(id), OpKind::kBoxing);
    const double compute = facts_.compute_seconds(), boxing = facts_.boxing_seconds();
    const LinkBytes bytes = facts_.bytes_moved();
    absl::StrAppend(&out_, "graph '", graph_.name(), "': ", CountText(num_nodes, "node"), ", ",
                    CountText(static_cast<int64_t>(facts_.boxings.size()), "boxing"), ", ", facts_.micro_batches,
                    facts_.micro_batches == 1 ? " micro-batch" : " micro-batches",
                    " per step\n  a step, one thing after another: compute ", SecondsText(compute), ", boxing ",
                    SecondsText(boxing), "; the busiest rank computes ", SecondsText(BusiestRank()), "\n",
                    "  boxing moves ", bytes.at_most ? "at most " : "", bytes.total(),
                    " bytes per step: ", LinksText(bytes), "\n");
    if (const std::string text = PrecisionSummary(job_, graph_); !text.empty()) {
      absl::StrAppend(&out_, "  precision: ", text, "\n");
    }
    Recomputation();
    const auto own = job_.options.meshes.find(graph_.name());
    if (own == job_.options.meshes.end()) return;
    absl::StrAppend(&out_, "  on a mesh of its own, ", own->second.whole().ToString(), "\n");
  }

  // Values that backward makes again, and their kept inputs: the difference is saved per micro-batch.
  void Recomputation() {
    int64_t num_nodes = 0, bytes = 0;
    double seconds = 0;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (node.role != Role::kRecompute) continue;
      ++num_nodes;
      seconds += facts_.compute[id];
      for (const ValueId output : node.outputs) {
        const bool is_read = std::any_of(consumers_[output].begin(), consumers_[output].end(),
                                         [&](NodeId reader) { return graph_.node(reader).role != Role::kRecompute; });
        if (is_read) bytes += ShardBytes(graph_.value(output).type, *graph_.value(output).dist);
      }
    }
    if (num_nodes == 0) return;
    absl::StrAppend(&out_, "  backward repeats ", CountText(num_nodes, "node"), ", ", SecondsText(seconds),
                    " of the compute, and so need not be kept ", BytesText(bytes), " of a micro-batch on a rank\n");
  }

  double BusiestRank() const {
    std::vector<double> seconds(job_.topology.num_ranks(), 0);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      for (int rank : graph_.node(id).placement->ranks()) seconds[rank] += facts_.compute[id];
    }
    return *std::max_element(seconds.begin(), seconds.end());
  }

  // The number of layouts along axes, by their origin.
  void Origins() {
    std::map<Origin::Kind, int> counts;
    for (ValueId value = 0; value < facts_.placed.num_values(); ++value) {
      const Node& node = facts_.placed.node(facts_.placed.value(value).producer);
      for (int axis = 0; axis < node.placement->num_axes(); ++axis) {
        if (node.placement->axes()[axis].size > 1) ++counts[facts_.origins[value][axis].kind];
      }
    }
    absl::StrAppend(&out_, "  layouts (tensors x axes): ", counts[Origin::Kind::kAnnotated], " asked for, ",
                    counts[Origin::Kind::kInherited], " follow these, ",
                    counts[Origin::Kind::kFixed] + counts[Origin::Kind::kTied],
                    " lie as other variables or graphs do, ", counts[Origin::Kind::kOnly], " without choice, ",
                    counts[Origin::Kind::kCost], " chosen by cost\n");
  }

  // Everything but the layer's number and the ranks.
  std::string Key(const BoxingFacts& boxing) const {
    const DistType& from = *graph_.value(boxing.from).dist;
    const DistType& to = *graph_.value(boxing.to).dist;
    const bool moves = from.placement != to.placement;
    return absl::StrCat(scopes_.Role(TensorName(graph_, boxing.tensor)), "|",
                        moves ? ChangeText(from, to) : absl::StrCat(ToString(from.sbp), ToString(to.sbp)), "|",
                        graph_.value(boxing.tensor).type.ToString(), "|", boxing.acts, "|", boxing.bytes.same_process,
                        ",", boxing.bytes.same_host, ",", boxing.bytes.between_hosts);
  }

  void Boxings() {
    std::vector<Group> groups;
    std::map<std::string, size_t> by_key;
    for (const BoxingFacts& boxing : facts_.boxings) {
      const auto [it, inserted] = by_key.emplace(Key(boxing), groups.size());
      if (inserted) groups.emplace_back();
      Group& group = groups[it->second];
      group.boxings.push_back(&boxing);
      group.seconds += boxing.seconds_per_step();
      group.bytes += boxing.bytes_per_step();
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.seconds > b.seconds; });
    if (groups.empty()) {
      absl::StrAppend(&out_, "  nothing is boxed\n");
      return;
    }
    absl::StrAppend(&out_, "  boxings, dearest first; times and bytes are of a step\n");
    const double all = facts_.boxing_seconds();
    double so_far = 0;
    for (size_t i = 0; i < groups.size(); ++i)
      Show(static_cast<int>(i) + 1, groups[i], all, so_far += groups[i].seconds);
  }

  void Show(int number, const Group& group, double all, double so_far) {
    const BoxingFacts& first = *group.boxings[0];
    const bool folded = group.boxings.size() > 1;
    const auto name = [&](const std::string& full) { return folded ? scopes_.Role(full) : full; };
    const std::string share = absl::StrFormat("%.0f%%, %.0f%% so far", 100 * group.seconds / all, 100 * so_far / all);
    absl::StrAppendFormat(&out_, "  %3d  %-9s %-20s", number, SecondsText(group.seconds), share);
    absl::StrAppend(&out_, name(TensorName(graph_, first.tensor)), " ", graph_.value(first.tensor).type.ToString(),
                    folded ? absl::StrCat(" x ", group.boxings.size()) : "", "\n");
    absl::StrAppend(&out_, kIndent, ChangeText(*graph_.value(first.from).dist, *graph_.value(first.to).dist), ": ",
                    HowText(facts_, first), "\n");
    const int64_t times = static_cast<int64_t>(group.boxings.size()) * first.acts;
    absl::StrAppend(&out_, kIndent, LinksText(group.bytes), "; ");
    if (times == 1) {
      absl::StrAppend(&out_, "once per step\n");
    } else {
      absl::StrAppend(&out_, times, " times per step, each ", SecondsText(first.seconds), "\n");
    }
    const Node& producer = graph_.node(graph_.value(first.tensor).producer);
    absl::StrAppend(&out_, kIndent, "made by ", name(producer.name), " ", OpAndSource(producer), "\n");
    const std::vector<NodeId> readers = ReadersOf(consumers_, facts_, first.to);
    for (size_t i = 0; i < std::min(readers.size(), kMaxReaders); ++i) {
      const Node& reader = graph_.node(readers[i]);
      absl::StrAppend(&out_, kIndent, i == 0 ? "read by " : "        ", name(reader.name), " ", OpAndSource(reader));
      if (i + 1 == kMaxReaders && readers.size() > kMaxReaders) {
        absl::StrAppend(&out_, " and ", readers.size() - kMaxReaders, " more");
      }
      absl::StrAppend(&out_, "\n");
    }
  }

  static constexpr absl::string_view kIndent = "                                      ";
  static constexpr size_t kMaxReaders = 3;

  const JobFacts& job_;
  const GraphFacts& facts_;
  const Graph& graph_;
  const Scopes scopes_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::string out_;
};

std::string HostsText(const JobFacts& job) { return absl::StrCat(" on ", job.topology.num_hosts(), " hosts"); }

}  // namespace

std::string ExplainJob(const JobFacts& job) {
  const int ranks = job.topology.num_ranks();
  const int processes = (ranks + job.options.ranks_per_process - 1) / job.options.ranks_per_process;
  std::string out = absl::StrCat(
      "job '", job.options.job, "': ", CountText(static_cast<int64_t>(job.graphs.size()), "graph"), " on mesh ",
      MeshText(job.options.mesh), ", ", CountText(ranks, "rank"), " in ", processes,
      processes == 1 ? " process" : " processes", job.topology.num_hosts() == 1 ? "" : HostsText(job), "\n");
  for (const GraphFacts& facts : job.graphs) absl::StrAppend(&out, "\n", GraphText(job, facts).Text());
  absl::StrAppend(&out,
                  "\nThe name of a tensor behind the job explains that tensor; the beginning of names lists them.\n");
  return out;
}

}  // namespace oneflow
