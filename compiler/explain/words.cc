#include "compiler/explain/words.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sbp/collective.h"

namespace oneflow {
namespace {

// Three digits that matter, without an exponent: "1.23", "12.3", "123".
std::string ThreeDigits(double x) {
  const double size = std::abs(x);
  const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, x);
}

const DistType& DistOf(const Graph& graph, ValueId value) { return *graph.value(value).dist; }

bool Moves(const DistType& from, const DistType& to) {
  std::vector<int> before = from.placement.ranks(), after = to.placement.ranks();
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  return before != after;
}

std::string Along(const std::vector<std::string>& axes) {
  return axes.empty() ? "" : absl::StrCat(" along ", absl::StrJoin(axes, " and "));
}

std::string ToRanks(const DistType& from, const DistType& to) {
  if (!Moves(from, to)) return "";
  const std::vector<int>& ranks = to.placement.ranks();
  return absl::StrCat(" to rank", ranks.size() == 1 ? " " : "s ", absl::StrJoin(ranks, ","));
}

const char* WordFor(Collective collective) { return collective == Collective::kNone ? "exchange" : Name(collective); }

// A reduce-scatter and an all-gather of the same axes are an all-reduce, as everybody calls it.
bool IsAllReduce(const BoxingFacts& boxing) {
  return boxing.steps.size() == 2 && boxing.steps[0].collective == Collective::kReduceScatter &&
         boxing.steps[1].collective == Collective::kAllGather && boxing.steps[0].axes == boxing.steps[1].axes;
}

}  // namespace

std::string BytesText(int64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return absl::StrCat(ThreeDigits(value), " ", units[unit]);
}

std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds)) return "impossible";
  const double size = std::abs(seconds);
  if (size == 0) return "0 us";
  if (size < 999.5e-9) return absl::StrCat(ThreeDigits(seconds * 1e9), " ns");
  if (size < 999.5e-6) return absl::StrCat(ThreeDigits(seconds * 1e6), " us");
  if (size < 999.5e-3) return absl::StrCat(ThreeDigits(seconds * 1e3), " ms");
  return absl::StrCat(ThreeDigits(seconds), " s");
}

std::string DifferenceText(double seconds) {
  return absl::StrCat(seconds >= 0 && std::isfinite(seconds) ? "+" : "", SecondsText(seconds));
}

std::string CountText(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string TensorName(const Graph& graph, ValueId value) {
  const Value& it = graph.value(value);
  const std::string& name = graph.node(it.producer).name;
  return it.output == 0 ? name : absl::StrCat(name, ":", it.output);
}

std::string OpAndSource(const Node& node) {
  return node.source.empty() ? absl::StrCat("(", node.op, ")") : absl::StrCat("(", node.op, ", ", node.source, ")");
}

std::string LinksText(const LinkBytes& bytes) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, const char* where) {
    if (count > 0) parts.push_back(absl::StrCat(BytesText(count), " ", where));
  };
  add(bytes.same_process, "within a process");
  add(bytes.same_host, "between processes");
  add(bytes.between_hosts, "between hosts");
  if (parts.empty()) return "nothing";
  return absl::StrCat(bytes.at_most ? "at most " : "", absl::StrJoin(parts, ", "));
}

std::string ChangeText(const DistType& from, const DistType& to) {
  if (from.placement == to.placement) return absl::StrCat(ToString(from.sbp), " -> ", ToString(to.sbp));
  const auto text = [](const DistType& dist) {
    return dist.placement.num_axes() == 0 ? absl::StrCat("rank ", dist.placement.ranks()[0]) : dist.ToString();
  };
  return absl::StrCat(text(from), " -> ", text(to));
}

std::string HowText(const GraphFacts& facts, const BoxingStepFacts& step) {
  const Node& node = facts.boxed.node(step.node);
  const DistType& from = DistOf(facts.boxed, node.inputs[0]);
  const DistType& to = DistOf(facts.boxed, node.outputs[0]);
  return absl::StrCat(WordFor(step.collective), Along(step.axes), ToRanks(from, to));
}

std::string HowText(const GraphFacts& facts, const BoxingFacts& boxing) {
  if (IsAllReduce(boxing)) return absl::StrCat(Name(Collective::kAllReduce), Along(boxing.steps[0].axes));
  return absl::StrJoin(boxing.steps, ", then ",
                       [&](std::string* out, const BoxingStepFacts& step) { out->append(HowText(facts, step)); });
}

std::string KindText(const GraphFacts& facts, const BoxingFacts& boxing) {
  if (IsAllReduce(boxing)) return Name(Collective::kAllReduce);
  if (boxing.bytes.total() == 0) return Name(Collective::kLocal);
  if (Moves(DistOf(facts.boxed, boxing.from), DistOf(facts.boxed, boxing.to))) return "move";
  return boxing.steps.size() > 1 ? "several" : WordFor(boxing.steps[0].collective);
}

std::string OriginText(const GraphFacts& facts, const Origin& origin, absl::string_view axis) {
  const auto asked = [&](const Node& node) {
    std::string wish;
    for (const AxisSbp& item : facts.placed.value(node.outputs[0]).hint) {
      if (item.axis == axis) wish = absl::StrCat(axis, ":", item.sbp.ToString());
    }
    return absl::StrCat("asked for", wish.empty() ? "" : absl::StrCat(" as ", wish),
                        node.source.empty() ? "" : absl::StrCat(" at ", node.source));
  };
  const Node* const from = origin.from < 0 ? nullptr : &facts.placed.node(origin.from);
  switch (origin.kind) {
    case Origin::Kind::kAnnotated:
      return asked(*from);
    case Origin::Kind::kInherited:
      return absl::StrCat("follows '", from->name, "', ", asked(*from));
    case Origin::Kind::kFixed:
      return "laid so by an earlier graph of the job";
    case Origin::Kind::kTied:
      return absl::StrCat("lies as variable '", from->name, "', with which it is overwritten");
    case Origin::Kind::kOnly:
      return "its op leaves no other";
    case Origin::Kind::kCost:
      break;
  }
  return "chosen by cost";
}

}  // namespace oneflow
