// What tests know of the ops that compare copies. They speak of ranks, not of tensors: here all ranks are one.
#include <bit>

#include "kernels/float16.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::ReplicaOps {
namespace {

// The bits of an element as its dtype holds it.
uint64_t BitsOf(double value, DType dtype) {
  const auto single = [](float x) { return std::bit_cast<uint32_t>(x); };
  switch (dtype) {
    case DType::kFloat32:
      return single(static_cast<float>(value));
    case DType::kBFloat16:
      return single(static_cast<float>(value)) >> 16;
    case DType::kFloat16:
      return std::bit_cast<uint16_t>(static_cast<NativeFloat16>(value));
    case DType::kInt32:
      return static_cast<uint32_t>(static_cast<int32_t>(value));
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

// One number per element of the output, the same: the sum of all elements' mixed bits.
Tensors ReplicaDigest(RefCall& c) {
  uint32_t digest = 0;
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    uint64_t h = BitsOf(c.in[0].values[i], c.in[0].dtype) + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(i + 1);
    for (const uint64_t factor : {0xFF51AFD7ED558CCDull, 0xC4CEB9FE1A85EC53ull}) h = (h ^ (h >> 33)) * factor;
    digest += static_cast<uint32_t>(h ^ (h >> 33));
  }
  RefTensor d = Zeros(c.attrs.Ints("shape"), DType::kInt32);
  for (double& value : d.values) value = static_cast<int32_t>(digest);
  return {d};
}

constexpr const char kTypes[] = R"(
replica_digest(f32[2,3]) {shape=[2,4]} = i32[2,4]
replica_digest(bool[2]) {shape=[]} = i32[]
replica_digest(f32[2]) ! attribute 'shape' is missing
assert_replicas(f32[2,3] i32[2]) = f32[2,3]
assert_replicas(f32[2] f32[2]) ! digests is f32[2] but must be i32
)";

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"replica_digest", "dtypes", {{"shape", Dims{1}}}, {r.Small({3, 7}, dtype)}, 0});
    RefTensor digests = Zeros({2, 3}, DType::kInt32);
    digests.values.assign(6, -77);
    cases.push_back({"assert_replicas", "dtypes", {}, {r.Small({3, 7}, dtype), digests}, 0});
  }
  cases.push_back({"replica_digest", "empty", {{"shape", Dims{1, 1}}}, {r.Uniform({0, 3})}, 0});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .edges = AddEdges};
  facts.reference = {{"replica_digest", ReplicaDigest},
                     {"assert_replicas", [](RefCall& c) { return Tensors{c.in[0]}; }}};
  facts.without_gradient = {{"replica_digest", "only the compiler adds it"},
                            {"assert_replicas", "only the compiler adds it"}};
  return facts;
}

}  // namespace oneflow::testing::ReplicaOps
