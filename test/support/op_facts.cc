#include "test/support/op_facts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/fused_form.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/fused_reference.h"
#include "test/support/standard_ops.h"

namespace oneflow::testing {

// Every family has a namespace of its own.
#define ONEFLOW_DECLARE_FACTS(Family) \
  namespace Family##Ops {             \
    OpFacts Facts();                  \
  }
ONEFLOW_OP_FAMILIES(ONEFLOW_DECLARE_FACTS)
// Fused ops are one family; what tests know of them are several files.
#define ONEFLOW_FUSED_FACTS(FAMILY) FAMILY(FusedProduct) FAMILY(MatmulCrossEntropy) FAMILY(AccumulateMatmul)
ONEFLOW_FUSED_FACTS(ONEFLOW_DECLARE_FACTS)
#undef ONEFLOW_DECLARE_FACTS

namespace {

struct Family {
  const char* name;
  OpFacts facts;
};

// Of fused ops, what follows from their rows.
OpFacts FactsOfRows() {
  OpFacts facts;
  facts.are_fused = true;
  for (const auto& [name, op] : Ops().all()) {
    if (op.forms == nullptr) continue;
    facts.reference.emplace_back(name, FusedReference(op));
    facts.without_gradient.emplace_back(name, "made after differentiation");
    if (op.forms->forms[0].fusion->row->only == DeviceKind::kCpu) facts.of_cpu_alone.push_back(name);
  }
  return facts;
}

const std::vector<Family>& Families() {
#define ONEFLOW_LIST_FACTS(Name) {#Name, Name##Ops::Facts()},
  static const auto* const families = new std::vector<Family>{
      ONEFLOW_OP_FAMILIES(ONEFLOW_LIST_FACTS) ONEFLOW_FUSED_FACTS(ONEFLOW_LIST_FACTS){"Rows", FactsOfRows()}};
#undef ONEFLOW_LIST_FACTS
  return *families;
}

// Every family draws from a stream of its own, so that a new one changes no other's cases.
template <typename Add>
std::vector<OpCase> CasesOf(uint64_t seed, Add add) {
  std::vector<OpCase> cases;
  for (const Family& family : Families()) {
    Random random(seed, family.name);
    add(family.facts, random, cases);
  }
  for (OpCase& c : cases) {
    for (RefTensor& x : c.inputs) x = Rounded(std::move(x));
  }
  return cases;
}

Tensor Ones(GraphBuilder& builder, DType dtype, std::initializer_list<int64_t> sizes) {
  return Constant(builder, {dtype, Shape(sizes)}, 1);
}

}  // namespace

Random::Random(uint64_t seed, const std::string& stream) {
  std::vector<uint32_t> words = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  words.insert(words.end(), stream.begin(), stream.end());
  std::seed_seq sequence(words.begin(), words.end());
  engine_.seed(sequence);
}

RefTensor Random::Uniform(std::vector<int64_t> dims, double low, double high) {
  RefTensor x = Zeros(std::move(dims));
  std::uniform_real_distribution<double> uniform(low, high);
  for (double& v : x.values) v = uniform(engine_);
  return x;
}

RefTensor Random::Integers(std::vector<int64_t> dims, int64_t below, DType dtype) {
  RefTensor x = Zeros(std::move(dims), dtype);
  std::uniform_int_distribution<int64_t> uniform(0, below - 1);
  for (double& v : x.values) v = static_cast<double>(uniform(engine_));
  return x;
}

RefTensor Random::Small(std::vector<int64_t> dims, DType dtype) {
  return Integers(std::move(dims), dtype == DType::kBool ? 2 : 100, dtype);
}

Tensor Operands::F32(std::initializer_list<int64_t> sizes) const { return Ones(b, DType::kFloat32, sizes); }
Tensor Operands::I32(std::initializer_list<int64_t> sizes) const { return Ones(b, DType::kInt32, sizes); }

const std::vector<OpFacts>& AllOpFacts() {
  static const auto* const all = [] {
    auto* const facts = new std::vector<OpFacts>;
    for (const Family& family : Families()) facts->push_back(family.facts);
    return facts;
  }();
  return *all;
}

const std::set<std::string>& CpuOps() {
  static const auto* const ops = [] {
    auto* const names = new std::set<std::string>;
    for (const Family& family : Families()) {
      names->insert(family.facts.of_cpu_alone.begin(), family.facts.of_cpu_alone.end());
    }
    return names;
  }();
  return *ops;
}

const std::set<std::string>& OpsMadeOfOthers() {
  static const auto* const ops = [] {
    auto* const names = new std::set<std::string>;
    for (const Family& family : Families()) {
      if (!family.facts.are_fused) continue;
      for (const auto& [op, reference] : family.facts.reference) names->insert(op);
    }
    return names;
  }();
  return *ops;
}

std::vector<OpCase> Examples(uint64_t seed) {
  return CasesOf(seed, [](const OpFacts& facts, Random& random, std::vector<OpCase>& cases) {
    if (facts.examples != nullptr) facts.examples(random, cases);
  });
}

std::vector<OpCase> ExamplesAndEdges(uint64_t seed) {
  return CasesOf(seed, [](const OpFacts& facts, Random& random, std::vector<OpCase>& cases) {
    if (facts.examples != nullptr) facts.examples(random, cases);
    if (facts.edges != nullptr) facts.edges(random, cases);
  });
}

std::vector<OpCase> Extremes(uint64_t seed) {
  return CasesOf(seed, [](const OpFacts& facts, Random& random, std::vector<OpCase>& cases) {
    if (facts.extremes != nullptr) facts.extremes(random, cases);
  });
}

std::vector<std::string> FactLines(absl::string_view table) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
    if (line.front() == ' ') {
      absl::StrAppend(&lines.back(), " ", absl::StripLeadingAsciiWhitespace(line));
    } else {
      lines.emplace_back(line);
    }
  }
  return lines;
}

TensorType TypeOf(const RefTensor& x) { return {x.dtype, Shape(x.dims), x.ragged}; }

std::vector<TensorType> TypesOf(absl::Span<const RefTensor> tensors) {
  std::vector<TensorType> types;
  for (const RefTensor& x : tensors) types.push_back(TypeOf(x));
  return types;
}

std::string ToString(const OpCase& c) {
  const auto type = [](std::string* out, const RefTensor& x) { out->append(TypeOf(x).ToString()); };
  return absl::StrCat(c.op, "(", absl::StrJoin(c.inputs, " ", type), "), ", c.what);
}

}  // namespace oneflow::testing
