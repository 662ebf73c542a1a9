#include "tools/study/sim/kernel_groups.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/string_view.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/elementwise_functions.h"

namespace oneflow {
namespace {

enum class GroupKind : uint8_t { kOther, kElementwise, kSoftmax, kSoftmaxGradient, kSum, kView };

GroupKind GroupKindOf(const pb::Instruction& instruction) {
  if (instruction.kind() != pb::Instruction::COMPUTE) return GroupKind::kOther;
  const absl::string_view op = instruction.op();
  if (op == "softmax") return GroupKind::kSoftmax;
  if (op == "softmax_grad") return GroupKind::kSoftmaxGradient;
  if (op == "accumulate") return GroupKind::kSum;
  if (op == "reshape" || op == "transpose") return GroupKind::kView;
#define OF_NAME(Name, op, ...) #op,
  static constexpr absl::string_view kOps[] = {ONEFLOW_UNARY_FUNCTIONS(OF_NAME) ONEFLOW_GRADIENT_FUNCTIONS(OF_NAME)
                                                   ONEFLOW_BINARY_FUNCTIONS(OF_NAME)  //
                                               "add_n",
                                               "add_scalar",
                                               "bias_add",
                                               "cast",
                                               "dropout",
                                               "elementwise",
                                               "neg",
                                               "scale"};
#undef OF_NAME
  const bool is_elementwise = std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
  return is_elementwise ? GroupKind::kElementwise : GroupKind::kOther;
}

using OperandPlace = std::tuple<int, int, int64_t>;  // register, zone, offset

OperandPlace WhereIs(const pb::Operand& operand) { return {operand.register_(), operand.zone(), operand.offset()}; }

double NumElements(const pb::Operand& operand) {
  double elements = 1;
  for (const int64_t dim : operand.dims()) elements *= static_cast<double>(dim);
  return elements;
}

double NumBytes(const pb::Operand& operand) {
  return NumElements(operand) * static_cast<double>(SizeOf(static_cast<DType>(operand.dtype())));
}

class Grouping {
 public:
  Grouping(const pb::Actor& actor, GradientSums sums) : actor_(actor), sums_(sums), makers_(actor.instructions_size()) {
    FindMakers();
    for (int i = 0; i < actor.instructions_size(); ++i) result_.group.push_back(GroupFor(i));
    CountBytes();
  }

  GroupedBytes Take() { return std::move(result_); }

 private:
  const pb::Instruction& at(int i) const { return actor_.instructions(i); }

  // Who has written what lies at a place when an instruction reads it: by instruction and input, -1 for other acts.
  void FindMakers() {
    std::map<OperandPlace, int> last;
    for (int i = 0; i < actor_.instructions_size(); ++i) {
      for (const pb::Operand& input : at(i).inputs()) {
        const auto it = last.find(WhereIs(input));
        makers_[i].push_back(it == last.end() ? -1 : it->second);
        if (it != last.end()) readers_[it->second].insert(i);
      }
      for (const pb::Operand& output : at(i).outputs()) last[WhereIs(output)] = i;
    }
  }

  bool of_products() const { return sums_ == GradientSums::kOfProducts; }

  // Whether `i` goes on with what `before` has made.
  bool GoesOn(int before, int i) const {
    const GroupKind from = GroupKindOf(at(before)), to = GroupKindOf(at(i));
    if (NumElements(at(before).outputs(0)) != NumElements(at(i).outputs(0))) return false;
    if (to == GroupKind::kSum && CastsGradient(before)) return true;
    if (at(before).op() == "matmul_wgrad") return of_products() && (to == GroupKind::kSum || CastsGradient(i));
    const bool goes_on = from == GroupKind::kElementwise || from == GroupKind::kSoftmaxGradient;
    return goes_on && (to == GroupKind::kElementwise || to == GroupKind::kSoftmax);
  }
  bool CastsGradient(int i) const {
    const int maker = at(i).op() == "cast" ? makers_[i][0] : -1;
    return maker >= 0 && at(maker).op() == "matmul_wgrad";
  }

  // With the last of those whose results it reads: nothing else can lie between the two.
  int GroupFor(int i) const {
    if (at(i).outputs().empty() || GroupKindOf(at(i)) == GroupKind::kOther || makers_[i].empty()) return i;
    const int last = *std::max_element(makers_[i].begin(), makers_[i].end());
    return last >= 0 && !at(last).outputs().empty() && GoesOn(last, i) ? result_.group[last] : i;
  }

  // Of a group what it reads of others, each place once, and what others read or other acts find.
  void CountBytes() {
    const int n = actor_.instructions_size();
    result_.bytes.assign(n, -1);
    std::map<int, int> last;
    std::map<int, double> bytes;
    std::map<int, std::set<OperandPlace>> read;
    for (int i = 0; i < n; ++i) {
      const int group = result_.group[i];
      last[group] = i;
      for (int in = 0; in < at(i).inputs_size(); ++in) {
        const int maker = makers_[i][in];
        if (maker >= 0 && result_.group[maker] == group) continue;
        if (read[group].insert(WhereIs(at(i).inputs(in))).second) bytes[group] += NumBytes(at(i).inputs(in));
      }
      const auto readers = readers_.find(i);
      const bool within =
          readers != readers_.end() && std::all_of(readers->second.begin(), readers->second.end(),
                                                   [&](int reader) { return result_.group[reader] == group; });
      for (const pb::Operand& output : at(i).outputs()) {
        if (!within || output.register_() >= 0) bytes[group] += NumBytes(output);
      }
      const bool adds = GroupKindOf(at(i)) == GroupKind::kSum || at(i).op() == "accumulate_matmul_wgrad";
      if (adds) bytes[group] += NumBytes(at(i).outputs(0));  // what is there is read
    }
    if (!of_products()) NarrowSums(bytes);
    for (int i = 0; i < n; ++i) {
      if (GroupKindOf(at(i)) == GroupKind::kView) {
        result_.bytes[i] = 0;
      } else if (at(i).kind() == pb::Instruction::COMPUTE) {
        result_.bytes[i] = last[result_.group[i]] == i ? bytes[result_.group[i]] : 0;
      }
    }
  }

  // Gradients and their sums are as wide as what products multiply, here as there.
  void NarrowSums(std::map<int, double>& bytes) const {
    for (int i = 0; i < actor_.instructions_size(); ++i) {
      if (GroupKindOf(at(i)) != GroupKind::kSum) continue;
      int product = makers_[i][0];
      if (product >= 0 && CastsGradient(product)) product = makers_[product][0];
      if (product < 0 || at(product).op() != "matmul_wgrad") continue;
      const pb::Operand& gradient = at(product).outputs(0);
      const double width = static_cast<double>(SizeOf(static_cast<DType>(at(product).inputs(0).dtype())));
      bytes[product] += NumElements(gradient) * width - NumBytes(gradient);
      bytes[result_.group[i]] = 3 * NumElements(gradient) * width;
    }
  }

  const pb::Actor& actor_;
  const GradientSums sums_;
  std::vector<std::vector<int>> makers_;
  std::map<int, std::set<int>> readers_;
  GroupedBytes result_;
};

}  // namespace

GroupedBytes GroupKernels(const pb::Actor& actor, GradientSums sums) { return Grouping(actor, sums).Take(); }

}  // namespace oneflow
