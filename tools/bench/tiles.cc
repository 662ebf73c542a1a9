#include "tools/bench/tiles.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/device.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/packed.h"
#include "tools/bench/timed_ways.h"

namespace oneflow {
namespace {

constexpr double kCyclesPerSecond = 2.8e9, kProductCycles = 20, kLoadCycles = 8.5, kStoreCycles = 16;
constexpr double kFlopsPerSecond = 4.59e12;  // of both cores, operands in registers
constexpr double kTileCores = 2;
constexpr double kSecondsOfARow = 0.5;  // of both ways of a row in a round

struct Operand {
  DType dtype;
  std::vector<int64_t> dims;
  bool is_small = false;  // 1/64 of normal numbers, as a weight's, so that logits are as those of a model
};
struct Call {
  std::string name, op;
  AttrMap attrs;
  std::vector<Operand> in, out;
  double flops;
};

Operand Narrow(std::vector<int64_t> dims) { return {DType::kBFloat16, std::move(dims)}; }
Operand Full(std::vector<int64_t> dims) { return {DType::kFloat32, std::move(dims)}; }
Operand Panels(int64_t k, int64_t n) { return Narrow(PackedShape(k, n).dims()); }

// A layer of `rows` rows of width c, hidden 4 c, `samples` of them.
void AddLayer(const std::string& of, int64_t samples, int64_t tokens, int64_t c, int64_t heads,
              std::vector<Call>& calls) {
  const int64_t rows = samples * tokens, hidden = 4 * c;
  const auto product = [&](int64_t k, int64_t n) { return 2.0 * static_cast<double>(rows * k * n); };
  const auto named = [&](const std::string& what) { return absl::StrCat(of, what); };
  calls.push_back({named("a projection"),
                   "packed_matmul_bias",
                   {},
                   {Narrow({rows, c}), Panels(c, c), Full({c})},
                   {Narrow({rows, c})},
                   product(c, c)});
  calls.push_back({named("up, with gelu"),
                   "packed_matmul_bias_gelu",
                   {},
                   {Narrow({rows, c}), Panels(c, hidden), Full({hidden})},
                   {Narrow({rows, hidden}), Narrow({rows, hidden})},
                   product(c, hidden)});
  calls.push_back({named("down"),
                   "packed_matmul_bias",
                   {},
                   {Narrow({rows, hidden}), Panels(hidden, c), Full({c})},
                   {Narrow({rows, c})},
                   product(hidden, c)});
  calls.push_back({named("gradient of gelu"),
                   "packed_matmul_gelu_bias_grad",
                   {},
                   {Narrow({rows, c}), Panels(c, hidden), Narrow({rows, hidden})},
                   {Narrow({rows, hidden}), Full({hidden})},
                   product(c, hidden)});
  calls.push_back({named("gradient of up's weight"),
                   "matmul_wgrad",
                   {{"out_dtype", std::string("f32")}},
                   {Narrow({rows, c}), Narrow({rows, hidden})},
                   {Full({c, hidden})},
                   product(c, hidden)});
  calls.push_back({named("gradient of a projection's"),
                   "matmul_wgrad",
                   {{"out_dtype", std::string("f32")}},
                   {Narrow({rows, c}), Narrow({rows, c})},
                   {Full({c, c})},
                   product(c, c)});
  const AttrMap attrs = {{"heads", heads}, {"causal", true}};
  const Operand x = Narrow({samples, tokens, c}), lse = Full({samples, heads, tokens});
  // Of the products that a causal head needs: half of each key's with each query.
  const double seen = 2.0 * static_cast<double>(samples * tokens * tokens * c) / 2;
  calls.push_back({named("attention"), "attention", attrs, {x, x, x}, {x, lse}, 2 * seen});
  calls.push_back({named("its gradient"), "attention_grad", attrs, {x, x, x, x, x, lse}, {x, x, x}, 5 * seen});
}

std::vector<Call> Calls() {
  std::vector<Call> calls;
  AddLayer("124M: ", 4, 256, 768, 12, calls);
  constexpr int64_t kRows = 1024, kWidth = 768, kClasses = 50257;
  calls.push_back({"124M: head and its loss",
                   "matmul_cross_entropy_grad",
                   {{"transpose_b", true}, {"dw_transpose", true}},
                   {Narrow({kRows, kWidth}),
                    {DType::kBFloat16, {kClasses, kWidth}, /*is_small=*/true},
                    {DType::kInt32, {kRows}},
                    Full({kRows})},
                   {Full({kRows}), Narrow({kRows, kWidth}), Full({kClasses, kWidth})},
                   6.0 * kRows * kWidth * kClasses});
  AddLayer("small: ", 32, 128, 128, 4, calls);
  return calls;
}

// Numbers of bf16, divided by 64.
void MakeSmall(uint16_t* x, int64_t count) {
  constexpr uint16_t kExponent = 0x7f80, kSixth = 6 << 7;
  for (int64_t i = 0; i < count; ++i) {
    if ((x[i] & kExponent) > kSixth) x[i] = static_cast<uint16_t>(x[i] - kSixth);
  }
}

class TilesCase : public BenchCase {
 public:
  explicit TilesCase(const BenchContext& context) : context_(context), calls_(Calls()) {
    for (const Call& call : calls_) rows_.push_back({.name = call.name, .flops = call.flops});
  }

  absl::StatusOr<std::string> RunRound() override {
    const absl::StatusOr<const CpuVariant*> twin = FindCpuVariant("amx_twin"), amx = FindCpuVariant("amx");
    if (!twin.ok() && !amx.ok()) {
      return absl::FailedPreconditionError(
          "this processor has no tiles, and this build not their twin, or the processor no avx512_bf16: configure with "
          "-DBUILD_TESTING=ON");
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      OF_RETURN_IF_ERROR_AT(RunRow(calls_[i], twin.ok() ? *twin : nullptr, amx.ok() ? *amx : nullptr, rows_[i]),
                            rows_[i].name);
    }
    double tiles = 0, floor = 0;
    for (const TilesRow& row : rows_) {
      tiles += amx.ok() ? row.on_tiles : row.tile_seconds();
      floor += row.floor_seconds();
    }
    return absl::StrFormat("%9.2f times the floor, %s", tiles / floor,
                           amx.ok() ? "measured" : "as tiles alone are predicted");
  }

  std::string Text() const override { return TilesText(rows_, context_.cores); }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const TilesRow& row : rows_) {
      json.push_back({{"name", row.name},
                      {"flops", row.flops},
                      {"loads", row.counts.loads},
                      {"products", row.counts.dots},
                      {"stores", row.counts.stores},
                      {"tile_seconds", row.tile_seconds()},
                      {"floor_seconds", row.floor_seconds()},
                      {"seconds", row.on_tiles},
                      {"library_seconds", row.by_library}});
    }
    return json;
  }

 private:
  absl::Status RunRow(const Call& call, const CpuVariant* twin, const CpuVariant* amx, TilesRow& row) const {
    if (twin != nullptr && row.counts.dots == 0) {
      OF_ASSIGN_OR_RETURN(const Way way, WayOn(*twin, call));
      twin->take_tile_counts();
      if (const char* error = way.run()) return absl::InternalError(error);
      row.counts = twin->take_tile_counts();
    }
    if (amx == nullptr) return absl::OkStatus();
    OF_ASSIGN_OR_RETURN(const CpuVariant* library, FindCpuVariant("avx512"));
    OF_ASSIGN_OR_RETURN(const Way on_tiles, WayOn(*amx, call));
    OF_ASSIGN_OR_RETURN(const Way by_library, WayOn(*library, call));
    return TimeInTurn({{on_tiles.run, &row.on_tiles}, {by_library.run, &row.by_library}}, kSecondsOfARow,
                      context_.stop);
  }

  struct Way {
    std::unique_ptr<DeviceContext> device;
    TimedWay run;
  };
  absl::StatusOr<Way> WayOn(const CpuVariant& variant, const Call& call) const {
    Way way = {MakeCpuDevice(context_.cores, variant), {}};
    way.device->BindThread();
    const auto make = [&](const std::vector<Operand>& types) -> absl::StatusOr<std::vector<KernelOperand>> {
      std::vector<KernelOperand> operands;
      for (const Operand& type : types) {
        const int64_t count = Shape(type.dims).count();
        void* const data = type.dtype == DType::kInt32  // labels: class 0
                               ? way.device->Allocate(static_cast<size_t>(count) * sizeof(int32_t))
                               : NormalNumbers(*way.device, type.dtype, count);
        if (data == nullptr) return absl::ResourceExhaustedError("no memory");
        if (type.is_small) MakeSmall(static_cast<uint16_t*>(data), count);
        operands.push_back({data, type.dtype, type.dims});
      }
      return operands;
    };
    OF_ASSIGN_OR_RETURN(std::vector<KernelOperand> in, make(call.in));
    OF_ASSIGN_OR_RETURN(std::vector<KernelOperand> out, make(call.out));
    OF_ASSIGN_OR_RETURN(way.run, KernelWay(*way.device, call.op, call.attrs, std::move(in), std::move(out)));
    return way;
  }

  const BenchContext& context_;
  const std::vector<Call> calls_;
  std::vector<TilesRow> rows_;
};

}  // namespace

double TilesRow::tile_seconds() const {
  const double products = static_cast<double>(counts.dots) * kProductCycles,
               loads = static_cast<double>(counts.loads) * kLoadCycles,
               stores = static_cast<double>(counts.stores) * kStoreCycles;
  return (std::max(products, loads) + stores) / kCyclesPerSecond / kTileCores;
}

double TilesRow::floor_seconds() const { return flops / kFlopsPerSecond; }

std::string TilesText(const std::vector<TilesRow>& rows, int cores) {
  std::string text = absl::StrFormat(
      "tiles: kernels of bf16 on tiles; ms of tiles alone as predicted for two cores of an Emerald Rapids, and on %d "
      "cores here\n",
      cores);
  absl::StrAppendFormat(&text, "  %-36s %10s %10s %9s %9s %9s %9s %9s\n", "", "loads", "products", "stores", "floor",
                        "tiles", "here", "library");
  const auto ms = [](double seconds) {
    return seconds == 0 ? std::string("-") : absl::StrFormat("%.3f", 1e3 * seconds);
  };
  for (const TilesRow& row : rows) {
    absl::StrAppendFormat(&text, "  %-36s %10d %10d %9d %9s %9s %9s %9s\n", row.name, row.counts.loads, row.counts.dots,
                          row.counts.stores, ms(row.floor_seconds()), ms(row.tile_seconds()), ms(row.on_tiles),
                          ms(row.by_library));
  }
  return text;
}

std::unique_ptr<BenchCase> MakeTilesCase(const BenchContext& context) { return std::make_unique<TilesCase>(context); }

}  // namespace oneflow
