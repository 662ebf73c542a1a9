#include "test/parity/composed_cases.h"

#include <utility>

#include "oneflow_core/composed.h"
#include "oneflow_core/einsum.h"

namespace oneflow::testing {
namespace {

using Xs = std::vector<Tensor>;
using Ints = std::vector<int64_t>;

class Cases {
 public:
  explicit Cases(uint64_t seed) : r(seed, "composed") {}

  // `call`: from operands and attributes to the results, or to the only one.
  template <typename Call>
  void Add(const std::string& function, AttrMap attrs, std::vector<RefTensor> inputs, Call call) {
    for (RefTensor& x : inputs) x = Rounded(std::move(x));
    cases.push_back({{.op = function, .what = "composed", .attrs = attrs, .inputs = std::move(inputs)},
                     [call, attrs](const Xs& x) { return Xs{call(x, attrs)}; }});
  }

  Random r;
  std::vector<ComposedCase> cases;
};

void AddElementwise(Cases& c) {
  c.Add("Clip", {{"low", -0.5}, {"high", 0.7}}, {c.r.Uniform({4, 5})},
        [](const Xs& x, const AttrMap& a) { return Clip(x[0], a.Double("low"), a.Double("high")); });
  for (const double power : {0.0, 1.0, 3.0, 16.0, 2.5, -1.5}) {
    const bool whole = power == static_cast<int>(power);
    c.Add("Pow", {{"power", power}}, {c.r.Uniform({3, 4}, whole ? -2 : 0.2, 2)},
          [](const Xs& x, const AttrMap& a) { return Pow(x[0], a.Double("power")); });
  }
  for (const double cap : {0.0, 1.5}) {
    c.Add("SoftCap", {{"cap", cap}}, {c.r.Uniform({3, 4})},
          [](const Xs& x, const AttrMap& a) { return SoftCap(x[0], a.Double("cap")); });
  }
}

void AddAlong(Cases& c) {
  for (const int64_t axis : {0, 1, 2, -1}) {
    const AttrMap attrs = {{"axis", axis}, {"keepdims", axis == 1}};
    const auto along = [](const AttrMap& a) { return static_cast<int>(a.Int("axis")); };
    c.Add("SoftmaxAlong", attrs, {c.r.Uniform({3, 4, 5})},
          [along](const Xs& x, const AttrMap& a) { return SoftmaxAlong(x[0], along(a)); });
    c.Add("LogSoftmax", attrs, {c.r.Uniform({3, 4, 5})},
          [along](const Xs& x, const AttrMap& a) { return LogSoftmax(x[0], along(a)); });
    c.Add("LogSumExp", attrs, {c.r.Uniform({3, 4, 5})},
          [along](const Xs& x, const AttrMap& a) { return LogSumExp(x[0], along(a), a.Bool("keepdims")); });
  }
  c.Add("ArgMax", {}, {c.r.Uniform({3, 7})}, [](const Xs& x, const AttrMap&) { return ArgMax(x[0]); });
  c.Add("OneHot", {{"classes", int64_t{6}}}, {c.r.Integers({2, 5}, 6)},
        [](const Xs& x, const AttrMap& a) { return OneHot(x[0], a.Int("classes")); });
  for (const bool descending : {false, true}) {
    c.cases.push_back({{.op = "Sort",
                        .what = "composed",
                        .attrs = {{"descending", descending}},
                        .inputs = {Rounded(c.r.Uniform({3, 9}))}},
                       [descending](const Xs& x) {
                         const Sorted sorted = Sort(x[0], descending);
                         return Xs{sorted.values, sorted.indices};
                       }});
  }
}

void AddShapes(Cases& c) {
  c.cases.push_back({{.op = "Split",
                      .what = "composed",
                      .attrs = {{"axis", int64_t{1}}, {"sizes", Ints{2, 1, 4}}},
                      .inputs = {Rounded(c.r.Uniform({3, 7}))}},
                     [](const Xs& x) {
                       return Split(x[0], 1, {2, 1, 4});
                     }});
  for (const int64_t axis : {0, 1, 2}) {
    c.Add("Stack", {{"axis", axis}}, {c.r.Uniform({3, 4}), c.r.Uniform({3, 4})},
          [](const Xs& x, const AttrMap& a) { return Stack(x, static_cast<int>(a.Int("axis"))); });
  }
  c.Add("Tile", {{"repeats", Ints{2, 1, 3}}}, {c.r.Uniform({2, 3, 2})},
        [](const Xs& x, const AttrMap& a) { return Tile(x[0], a.Ints("repeats")); });
  const AttrMap margins = {{"before", Ints{0, 0, 2, 1}}, {"after", Ints{0, 0, 1, 3}}};
  c.Add("PadReflect", margins, {c.r.Uniform({2, 3, 4, 5})},
        [](const Xs& x, const AttrMap& a) { return PadReflect(x[0], a.Ints("before"), a.Ints("after")); });
  c.Add("PadEdge", margins, {c.r.Uniform({2, 3, 4, 5})},
        [](const Xs& x, const AttrMap& a) { return PadEdge(x[0], a.Ints("before"), a.Ints("after")); });
  for (const std::string letters : {"bqd,bkd->bqk", "ij,jk->ik", "bi,bj->bij", "abc,dbe->ca"}) {
    std::vector<RefTensor> in = {c.r.Uniform({2, 3, 4}), c.r.Uniform({2, 5, 4})};
    if (letters == "ij,jk->ik") in = {c.r.Uniform({3, 4}), c.r.Uniform({4, 2})};
    if (letters == "bi,bj->bij") in = {c.r.Uniform({3, 4}), c.r.Uniform({3, 2})};
    if (letters == "abc,dbe->ca") in = {c.r.Uniform({2, 3, 4}), c.r.Uniform({2, 3, 5})};
    c.Add("Einsum", {{"letters", letters}}, std::move(in),
          [](const Xs& x, const AttrMap& a) { return Einsum(a.String("letters"), x); });
  }
}

void AddImages(Cases& c) {
  for (const int64_t groups : {1, 2, 6}) {
    c.Add("GroupNorm", {{"groups", groups}, {"epsilon", 1e-3}},
          {c.r.Uniform({2, 6, 3, 2}), c.r.Uniform({6}), c.r.Uniform({6})}, [](const Xs& x, const AttrMap& a) {
            return GroupNorm(x[0], x[1], x[2], a.Int("groups"), a.Double("epsilon"));
          });
  }
  for (const bool corners : {false, true}) {
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{7, 9}, {2, 3}}) {
      c.Add("ResizeBilinear", {{"height", height}, {"width", width}, {"align_corners", corners}},
            {c.r.Uniform({2, 3, 4, 5})}, [](const Xs& x, const AttrMap& a) {
              return ResizeBilinear(x[0], a.Int("height"), a.Int("width"), a.Bool("align_corners"));
            });
    }
  }
}

void AddAttention(Cases& c) {
  for (const bool causal : {false, true}) {
    const AttrMap attrs = {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}, {"causal", causal}, {"soft_cap", 3.0}};
    const auto heads = [](const AttrMap& a) {
      return AttentionHeads{.heads = a.Int("heads"),
                            .kv_heads = a.Int("kv_heads"),
                            .causal = a.Bool("causal"),
                            .soft_cap = a.Double("soft_cap")};
    };
    const auto qkv = [&] {
      return std::vector<RefTensor>{c.r.Uniform({2, 5, 8}), c.r.Uniform({2, 5, 4}), c.r.Uniform({2, 5, 4})};
    };
    std::vector<RefTensor> added = qkv(), documents = qkv();
    added.push_back(c.r.Uniform({4, 5, 5}));
    documents.push_back(c.r.Integers({2, 5}, 2));
    c.Add("ScoredAttention", attrs, qkv(),
          [heads](const Xs& x, const AttrMap& a) { return ScoredAttention(x[0], x[1], x[2], heads(a), {}); });
    c.Add("ScoredAttention", attrs, std::move(added), [heads](const Xs& x, const AttrMap& a) {
      return ScoredAttention(x[0], x[1], x[2], heads(a), {.added = x[3]});
    });
    c.Add("ScoredAttention", attrs, std::move(documents), [heads](const Xs& x, const AttrMap& a) {
      return ScoredAttention(x[0], x[1], x[2], heads(a), {.documents = x[3]});
    });
  }
}

void AddLosses(Cases& c) {
  c.Add("SquaredError", {}, {c.r.Uniform({3, 4}), c.r.Uniform({3, 4})},
        [](const Xs& x, const AttrMap&) { return SquaredError(x[0], x[1]); });
  c.Add("BinaryCrossEntropy", {}, {c.r.Uniform({3, 4}, -8, 8), c.r.Uniform({3, 4}, 0, 1)},
        [](const Xs& x, const AttrMap&) { return BinaryCrossEntropy(x[0], x[1]); });
  RefTensor signs = c.r.Integers({3, 4}, 2);
  signs.dtype = DType::kFloat32;
  for (double& v : signs.values) v = 2 * v - 1;
  c.Add("HingeLoss", {{"margin", 0.8}}, {c.r.Uniform({3, 4}), signs},
        [](const Xs& x, const AttrMap& a) { return HingeLoss(x[0], x[1], a.Double("margin")); });
  c.Add("KlDivergence", {}, {c.r.Uniform({3, 4}, -4, 0), c.r.Uniform({3, 4}, 0.1, 1)},
        [](const Xs& x, const AttrMap&) { return KlDivergence(x[0], x[1]); });
  RefTensor labels = c.r.Integers({2, 6}, 7), ignored = labels;
  for (int64_t i = 0; i < ignored.count(); i += 3) ignored.values[i] = -100;
  for (const auto& [smoothing, z] : {std::pair(0.0, 0.0), {0.1, 0.0}, {0.0, 0.02}, {0.2, 0.01}}) {
    const AttrMap attrs = {{"label_smoothing", smoothing}, {"z_loss", z}};
    const auto options = [](const AttrMap& a) {
      return CrossEntropyOptions{.label_smoothing = a.Double("label_smoothing"), .z_loss = a.Double("z_loss")};
    };
    c.Add("CrossEntropy", attrs, {c.r.Uniform({2, 6, 7}, -4, 4), labels},
          [options](const Xs& x, const AttrMap& a) { return CrossEntropy(x[0], x[1], options(a)); });
    c.Add("MeanCrossEntropy", attrs, {c.r.Uniform({2, 6, 7}, -4, 4), ignored},
          [options](const Xs& x, const AttrMap& a) { return MeanCrossEntropy(x[0], x[1], options(a)); });
  }
}

}  // namespace

std::vector<ComposedCase> ComposedCases(uint64_t seed) {
  Cases cases(seed);
  for (const auto add : {AddElementwise, AddAlong, AddShapes, AddImages, AddAttention, AddLosses}) add(cases);
  return std::move(cases.cases);
}

}  // namespace oneflow::testing
