// The law of operands: what the runtime checks before it gives operands to a kernel refuses no shard of any layout, and
// what it lets pass, the kernel reads and writes within its operands.
//
//   a layout that an op claims   ── cut ──►  shards of every rank: accepted
//   shards, one thing changed    ── check ──►  InvalidArgument, or the kernel runs in memory of exactly these sizes
#include <random>

#include "absl/strings/str_join.h"
#include "actor/instruction/operand_check.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "oneflow_core/ops/ops.h"
#include "sbp/signatures.h"
#include "sbp/slices.h"
#include "test/laws/random_model.h"
#include "test/support/grid.h"
#include "test/support/guarded_memory.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kSeed = 20250117;

// An operand as a program states it.
struct Operand {
  DType dtype;
  std::vector<int64_t> dims, logical_dims, start;
  int ragged = -1;

  int64_t count() const { return Shape(dims).count(); }
};

// A call on one rank's shards.
struct ShardCall {
  std::string op;
  AttrMap attrs;
  std::vector<Operand> inputs, outputs;

  size_t size() const { return inputs.size() + outputs.size(); }
  Operand& operand(size_t i) { return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()]; }
};

std::string ToString(const Attr& attr) {
  if (const bool* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&attr)) return absl::StrCat(*i);
  if (const double* d = std::get_if<double>(&attr)) return absl::StrCat(*d);
  if (const std::string* s = std::get_if<std::string>(&attr)) return absl::StrCat("'", *s, "'");
  return Shape(std::get<std::vector<int64_t>>(attr)).ToString();
}

std::string ToString(const std::vector<Operand>& operands) {
  return absl::StrJoin(operands, " ", [](std::string* out, const Operand& x) {
    absl::StrAppend(out, Name(x.dtype), Shape(x.logical_dims).ToString(), "/", Shape(x.start).ToString(), "+",
                    Shape(x.dims).ToString());
  });
}

std::string ToString(const ShardCall& call) {
  std::string attrs;
  for (const auto& [name, value] : call.attrs.items()) absl::StrAppend(&attrs, " ", name, "=", ToString(value));
  return absl::StrCat(call.op, "(", ToString(call.inputs), ") ->", ToString(call.outputs), " {", attrs, " }");
}

std::vector<ShardType> ShardsOf(const std::vector<Operand>& operands) {
  std::vector<ShardType> shards;
  for (const Operand& x : operands) shards.push_back({x.dtype, Shape(x.dims), Shape(x.logical_dims), x.ragged});
  return shards;
}

Operand ShardOf(const TensorType& type, const Placement& grid, const NdSbp& sbp, int rank) {
  const Region region = ShardRegion(type.shape, {grid, sbp}, rank);
  return {type.dtype, region.extent, type.shape.dims(), region.start, type.ragged};
}

class OperandLawTest : public ::testing::Test {
 protected:
  OperandLawTest() : ops_(StandardOps()), cases_(Examples(kSeed)) {}

  absl::Status Check(const ShardCall& call) const {
    return CheckCall(*ops_.Find(call.op), call.attrs, ShardsOf(call.inputs), ShardsOf(call.outputs));
  }

  // Calls visit(call) for every rank of every layout of `c` on a mesh of these sizes.
  template <typename Visit>
  void ForEachShard(const OpCase& c, const std::vector<int>& sizes, Visit visit) const {
    const OpDef& op = *ops_.Find(c.op);
    const std::vector<TensorType> inputs = TypesOf(c.inputs);
    ASSERT_OK_AND_ASSIGN(const std::vector<TensorType> outputs, op.infer({inputs, c.attrs}));
    std::vector<std::vector<Signature>> layouts = {{}};
    for (const int size : sizes) {
      ASSERT_OK_AND_ASSIGN(const std::vector<Signature> signatures, Signatures1d(op, inputs, outputs, c.attrs, size));
      std::vector<std::vector<Signature>> longer;
      for (const std::vector<Signature>& layout : layouts) {
        for (const Signature& signature : signatures) {
          longer.push_back(layout);
          longer.back().push_back(signature);
        }
      }
      layouts = std::move(longer);
    }
    const Placement grid = GridOf(sizes);
    for (const std::vector<Signature>& layout : layouts) {
      if (sizes.size() > 1 && !CheckNdSignature(op, inputs, outputs, c.attrs, sizes, layout).ok()) continue;
      for (int rank = 0; rank < grid.size(); ++rank) {
        ShardCall call = {c.op, c.attrs, {}, {}};
        const auto sbp = [&](std::vector<Sbp> Signature::*side, size_t i) {
          NdSbp result;
          for (const Signature& signature : layout) result.push_back((signature.*side)[i]);
          return result;
        };
        for (size_t i = 0; i < inputs.size(); ++i) {
          call.inputs.push_back(ShardOf(inputs[i], grid, sbp(&Signature::inputs, i), rank));
        }
        for (size_t i = 0; i < outputs.size(); ++i) {
          call.outputs.push_back(ShardOf(outputs[i], grid, sbp(&Signature::outputs, i), rank));
        }
        visit(call);
      }
    }
  }

  const OpRegistry ops_;
  const std::vector<OpCase> cases_;
};

TEST_F(OperandLawTest, ShardsOfEveryLayoutAreAccepted) {
  int accepted = 0, empty = 0;
  for (const OpCase& c : ExamplesAndEdges(kSeed)) {
    if (!ops_.Find(c.op)->infer({TypesOf(c.inputs), c.attrs}).ok()) continue;  // kernels take more than ops do
    for (const std::vector<int>& sizes : {std::vector<int>{1}, {2}, {3}, {4}, {5}, {2, 2}, {2, 3}}) {
      ForEachShard(c, sizes, [&](const ShardCall& call) {
        EXPECT_OK(Check(call)) << ToString(call);
        ++accepted;
        const std::vector<ShardType> inputs = ShardsOf(call.inputs);
        empty += std::any_of(inputs.begin(), inputs.end(), [](const ShardType& x) { return x.dims.count() == 0; });
      });
    }
  }
  EXPECT_GT(accepted, 10000);
  EXPECT_GT(empty, 1000);
}

// Runs kernels as the runtime does, in memory that ends with each operand.
class GuardedKernels {
 public:
  GuardedKernels() : device_(MakeCpuDevice(1)) { device_->BindThread(); }

  // False if there is no kernel for it or not for its shapes.
  bool Run(const ShardCall& call, GuardedMemory::Side side, std::mt19937_64& random) {
    if (call.size() == 0) return false;
    const DType dtype = call.inputs.empty() ? call.outputs[0].dtype : call.inputs[0].dtype;
    const Kernel* const kernel = device_->kernels().Find(call.op, dtype);
    if (kernel == nullptr) return false;
    std::vector<TensorArg> args;
    for (const std::vector<Operand>* operands : {&call.inputs, &call.outputs}) {
      for (const Operand& x : *operands) args.push_back(ArgOf(x));
    }
    KernelArgs kernel_args = {.attrs = &call.attrs, .step = 3, .micro_batch = 1, .micro_batches = 2};
    kernel_args.in = std::span<const TensorArg>(args).first(call.inputs.size());
    kernel_args.out = std::span<const TensorArg>(args).subspan(call.inputs.size());
    std::shared_ptr<void> state;
    if (kernel->prepare != nullptr) {
      state = kernel->prepare(kernel_args);
      if (state == nullptr) return false;
      kernel_args.state = state.get();
    }
    const size_t workspace = kernel->workspace_bytes == nullptr ? 0 : kernel->workspace_bytes(kernel_args);
    if (workspace > GuardedMemory::kUsable) return false;
    while (memory_.size() <= args.size()) memory_.push_back(std::make_unique<GuardedMemory>());
    for (size_t i = 0; i < args.size(); ++i) {
      args[i].data = memory_[i]->Take(static_cast<size_t>(args[i].count) * SizeOf(args[i].dtype), side);
      Fill(args[i], random);
    }
    kernel_args.workspace = memory_[args.size()]->Take(workspace, side);
    kernel->run(kernel_args);  // an error is an answer too
    return true;
  }

 private:
  static TensorArg ArgOf(const Operand& x) {
    return {.dtype = x.dtype,
            .rank = static_cast<int>(x.dims.size()),
            .count = x.count(),
            .dims = x.dims.data(),
            .logical_dims = x.logical_dims.data(),
            .start = x.start.data()};
  }

  // Integers are often indices that exist, and often not: nobody has checked those either.
  static void Fill(const TensorArg& x, std::mt19937_64& random) {
    const bool wild = random() % 4 == 0;
    for (int64_t i = 0; i < x.count; ++i) {
      const int64_t integer = wild ? static_cast<int64_t>(random()) : static_cast<int64_t>(random() % 3);
      const float real = static_cast<float>(random() % 1000) / 250 - 2;
      char* const to = x.as<char>() + i * static_cast<int64_t>(SizeOf(x.dtype));
      if (x.dtype == DType::kFloat32) {
        std::memcpy(to, &real, sizeof(real));
      } else if (x.dtype == DType::kBool) {
        *to = static_cast<char>(integer & 1);
      } else {
        std::memcpy(to, &integer, SizeOf(x.dtype));
      }
    }
  }

  const std::unique_ptr<DeviceContext> device_;
  std::vector<std::unique_ptr<GuardedMemory>> memory_;
};

// One change of a call.
class Mutation {
 public:
  explicit Mutation(std::mt19937_64& random) : random_(random) {}

  void Apply(ShardCall& call) {
    const size_t kind = Draw(14);
    if (kind < 3 && !call.attrs.items().empty()) return ChangeAttribute(call.attrs);
    if (kind == 3) return ChangeNumber(Draw(2) == 0 ? call.inputs : call.outputs);
    if (call.size() == 0) return;
    if (kind >= 12) return ChangeSizeEverywhere(call);
    if (kind >= 10) return ChangeDTypes(call);
    Operand& x = call.operand(Draw(call.size()));
    if (kind == 4) {
      x.dtype = kAllDTypes[Draw(std::size(kAllDTypes))];
    } else if (kind == 5) {
      std::swap(x, call.operand(Draw(call.size())));
    } else if (kind == 6 || x.dims.empty()) {
      ChangeRank(x);
    } else {
      ChangeSize(x, /*logical=*/kind != 7, /*part=*/kind != 8);
    }
  }

 private:
  size_t Draw(size_t n) { return random_() % n; }
  int64_t Other(int64_t value) {
    const int64_t choices[] = {value - 1, value + 1, 0, 1, -1, 2 * value, value + 2, 17, int64_t{1} << 29};
    return choices[Draw(std::size(choices))];
  }

  void ChangeAttribute(AttrMap& attrs) {
    auto it = attrs.items().begin();
    std::advance(it, Draw(attrs.items().size()));
    const std::string name = it->first;
    Attr value = it->second;
    if (Draw(10) == 0) {
      value = std::string("x");
    } else if (bool* const b = std::get_if<bool>(&value)) {
      *b = !*b;
    } else if (int64_t* const i = std::get_if<int64_t>(&value)) {
      *i = Other(*i);
    } else if (double* const d = std::get_if<double>(&value)) {
      *d = static_cast<double>(Other(static_cast<int64_t>(*d)));
    } else if (std::string* const s = std::get_if<std::string>(&value)) {
      *s = Name(kAllDTypes[Draw(std::size(kAllDTypes))]);
    } else {
      ChangeList(std::get<std::vector<int64_t>>(value));
    }
    attrs.Set(name, std::move(value));
  }

  void ChangeList(std::vector<int64_t>& list) {
    if (list.empty() || Draw(4) == 0) {
      list.insert(list.begin() + static_cast<int64_t>(Draw(list.size() + 1)), static_cast<int64_t>(Draw(4)));
    } else if (Draw(3) == 0) {
      list.erase(list.begin() + static_cast<int64_t>(Draw(list.size())));
    } else {
      int64_t& value = list[Draw(list.size())];
      value = Other(value);
    }
  }

  void ChangeNumber(std::vector<Operand>& operands) {
    if (operands.empty()) return;
    const auto at = operands.begin() + static_cast<int64_t>(Draw(operands.size()));
    if (Draw(2) == 0) {
      operands.erase(at);
    } else {
      operands.insert(operands.end(), Operand(*at));
    }
  }

  void ChangeRank(Operand& x) {
    const auto at = static_cast<int64_t>(Draw(x.dims.size() + 1));
    const bool grows = x.dims.empty() || at == static_cast<int64_t>(x.dims.size()) || Draw(2) == 0;
    const int64_t size = static_cast<int64_t>(Draw(4));
    for (auto [list, value] : {std::pair(&x.dims, size), {&x.logical_dims, size}, {&x.start, int64_t{0}}}) {
      if (grows) {
        list->insert(list->begin() + at, value);
      } else {
        list->erase(list->begin() + at);
      }
    }
  }

  // Of some of the operands that have one dtype.
  void ChangeDTypes(ShardCall& call) {
    const DType before = call.operand(Draw(call.size())).dtype, now = kAllDTypes[Draw(std::size(kAllDTypes))];
    for (size_t i = 0; i < call.size(); ++i) {
      if (call.operand(i).dtype == before && Draw(2) == 0) call.operand(i).dtype = now;
    }
  }

  // Of all dimensions that have one size, so that operands often still fit together.
  void ChangeSizeEverywhere(ShardCall& call) {
    const Operand& x = call.operand(Draw(call.size()));
    if (x.dims.empty()) return;
    const int64_t before = x.dims[Draw(x.dims.size())], now = static_cast<int64_t>(Draw(20));
    for (size_t i = 0; i < call.size(); ++i) {
      Operand& other = call.operand(i);
      for (size_t d = 0; d < other.dims.size(); ++d) {
        if (other.logical_dims[d] == before) other.logical_dims[d] = now;
        if (other.dims[d] == before) other.dims[d] = now;
        other.dims[d] = std::min(other.dims[d], other.logical_dims[d]);
        other.start[d] = std::min(other.start[d], other.logical_dims[d] - other.dims[d]);
      }
    }
  }

  // The part stays in the whole, as the check of programs has it.
  void ChangeSize(Operand& x, bool logical, bool part) {
    const size_t i = Draw(x.dims.size());
    if (logical) x.logical_dims[i] = std::max<int64_t>(0, Other(x.logical_dims[i]));
    if (part) x.dims[i] = std::max<int64_t>(0, Other(x.dims[i]));
    x.dims[i] = std::min(x.dims[i], x.logical_dims[i]);
    x.start[i] = std::min(x.start[i], x.logical_dims[i] - x.dims[i]);
  }

  std::mt19937_64& random_;
};

bool Fits(const ShardCall& call) {
  for (const std::vector<Operand>* operands : {&call.inputs, &call.outputs}) {
    for (const Operand& x : *operands) {
      double bytes = static_cast<double>(SizeOf(x.dtype));
      for (const int64_t dim : x.dims) bytes *= static_cast<double>(dim);
      if (bytes > static_cast<double>(GuardedMemory::kUsable)) return false;
    }
  }
  return true;
}

// The memory is worth what it catches.
TEST_F(OperandLawTest, AKernelThatLeavesItsOperandsEndsTheProcess) {
  const auto add = [](int64_t size_of_b) {
    const Operand whole = {DType::kFloat32, {8}, {8}, {0}}, b = {DType::kFloat32, {size_of_b}, {8}, {0}};
    return ShardCall{"add", {}, {whole, b}, {whole}};
  };
  const auto run = [](const ShardCall& call) {
    SaidOnFault said;
    said.Set(ToString(call));
    std::mt19937_64 random(kSeed);
    GuardedKernels().Run(call, GuardedMemory::kBehind, random);
    _exit(0);
  };
  EXPECT_OK(Check(add(8)));
  EXPECT_EXIT(run(add(8)), ::testing::ExitedWithCode(0), "");
  EXPECT_THAT(Check(add(7)), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  EXPECT_EXIT(run(add(7)), ::testing::ExitedWithCode(1), "memory fault: add");
}

TEST_F(OperandLawTest, KernelsStayWithinWhatIsAccepted) {
  const int mutations_of_case = FromEnvironment("ONEFLOW_RANDOM_MUTATIONS", 400);
  const uint64_t seed = static_cast<uint64_t>(FromEnvironment("ONEFLOW_RANDOM_SEED", 1));
  SaidOnFault said;
  GuardedKernels kernels;
  int refused = 0, run = 0;
  std::set<std::string> run_ops;
  for (size_t i = 0; i < cases_.size(); ++i) {
    std::mt19937_64 random(1000 * seed + i);
    std::vector<ShardCall> calls;
    for (const int size : {1, 3})
      ForEachShard(cases_[i], {size}, [&](const ShardCall& call) { calls.push_back(call); });
    for (int m = 0; m < mutations_of_case; ++m) {
      ShardCall call = calls[random() % calls.size()];
      for (size_t changes = m == 0 ? 0 : 1 + random() % 2; changes > 0; --changes) Mutation(random).Apply(call);
      if (!Fits(call)) continue;
      said.Set(absl::StrCat(ToString(call), ", seed ", seed, ", case ", i, ", mutation ", m));
      const absl::Status status = Check(call);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
        ++refused;
        continue;
      }
      for (const auto side : {GuardedMemory::kBefore, GuardedMemory::kBehind}) {
        if (!kernels.Run(call, side, random)) continue;
        ++run;
        run_ops.insert(call.op);
      }
    }
  }
  EXPECT_GT(refused, 10000);
  EXPECT_GT(run, 10000);
  EXPECT_GT(run_ops.size(), 80u);
}

}  // namespace
}  // namespace oneflow::testing
