#include "tools/bench/gemm.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cpu/variant.h"
#include "kernels/device.h"
#include "nlohmann/json.hpp"
#include "oneapi/dnnl/dnnl.hpp"
#include "oneflow_core/packed.h"
#include "tools/bench/pytorch_case.h"
#include "tools/bench/timed_ways.h"

namespace oneflow {
namespace {

// Of a step of 1,024 tokens: queries, keys and values at once, attention's output, the mlp's two layers, the head; and
// the gradients of the weights of a layer and of the head.
constexpr GemmShape kGemmShapes[] = {{1024, 2304, 768},  {1024, 768, 768},  {1024, 3072, 768}, {1024, 768, 3072},
                                     {1024, 50304, 768}, {768, 3072, 1024}, {50304, 768, 1024}};
constexpr DType kGemmTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr double kGemmSeconds = 0.5;  // of all ways of a product in a round, repeated that long
constexpr double kSlowerBy = 0.9;     // below this our kernel is said to be slower

const char* NameOfType(DType dtype) { return dtype == DType::kBFloat16 ? "bf16" : "f32"; }

struct GemmOperands {
  GemmShape shape;
  DType dtype;
  void *a, *b, *c;
};

// As a step multiplies: a weight of bf16 lies in panels, if they are whole.
absl::StatusOr<TimedWay> OurWay(DeviceContext& device, const GemmOperands& x) {
  const auto [m, n, k] = x.shape;
  const bool packed = x.dtype == DType::kBFloat16 && HasWholePanels(k, n);
  const char* const op = packed ? "packed_matmul" : "matmul";
  return KernelWay(
      device, op, {},
      {{x.a, x.dtype, {m, k}}, {x.b, x.dtype, packed ? PackedShape(k, n).dims() : std::vector<int64_t>{k, n}}},
      {{x.c, x.dtype, {m, n}}});
}

// oneDNN's matmul; `packed`: of b in the format that it likes best, brought there beforehand.
absl::StatusOr<TimedWay> LibraryWay(const GemmOperands& x, bool packed) {
  using dnnl::memory;
  const auto [m, n, k] = x.shape;
  const memory::data_type type = x.dtype == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const memory::desc a({m, k}, type, memory::format_tag::ab), b({k, n}, type, memory::format_tag::ab),
        c({m, n}, type, memory::format_tag::ab), any({k, n}, type, memory::format_tag::any);
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, packed ? any : b, c), engine);
    dnnl::stream stream(engine);
    memory weights(b, engine, x.b);
    if (packed) {
      memory other(desc.weights_desc(), engine);
      dnnl::reorder(weights, other).execute(stream, weights, other);
      stream.wait();
      weights = other;
    }
    return TimedWay([product = dnnl::matmul(desc), stream, weights, from = memory(a, engine, x.a),
                     to = memory(c, engine, x.c)]() mutable -> const char* {
      product.execute(stream, {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, to}});
      stream.wait();
      return nullptr;
    });
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
}

// Of the rows it has figures for, by "f32 1024 768 768".
using PyTorchGemms = std::map<std::string, double>;

std::string KeyOf(const GemmRow& row) {
  return absl::StrCat(NameOfType(row.dtype), " ", row.shape.m, " ", row.shape.n, " ", row.shape.k);
}

class GemmCase : public BenchCase {
 public:
  explicit GemmCase(const BenchContext& context) : context_(context) {
    for (const DType dtype : kGemmTypes) {
      for (const GemmShape& shape : kGemmShapes) rows_.push_back({.shape = shape, .dtype = dtype});
    }
  }

  absl::StatusOr<std::string> RunRound() override {
    for (GemmRow& row : rows_) OF_RETURN_IF_ERROR_AT(RunRow(row), KeyOf(row));
    if (!context_.pytorch.empty()) OF_RETURN_IF_ERROR(RunPyTorchGemms());
    const auto slower = std::count_if(rows_.begin(), rows_.end(),
                                      [](const GemmRow& row) { return row.ratio() > 0 && row.ratio() < kSlowerBy; });
    return absl::StrFormat("%9d of %d products slower than others' by a tenth or more", slower, rows_.size());
  }

  std::string Text() const override { return GemmText(rows_, context_.cores, pytorch_); }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const GemmRow& row : rows_) {
      json.push_back({{"m", row.shape.m},
                      {"n", row.shape.n},
                      {"k", row.shape.k},
                      {"dtype", NameOfType(row.dtype)},
                      {"seconds", row.ours},
                      {"library_seconds", row.library},
                      {"packed_seconds", row.packed},
                      {"pytorch_seconds", row.pytorch}});
    }
    return json;
  }

 private:
  absl::Status RunRow(GemmRow& row) const {
    const std::unique_ptr<DeviceContext> device = MakeCpuDevice(context_.cores);
    device->BindThread();
    const auto [m, n, k] = row.shape;
    const GemmOperands x = {row.shape, row.dtype, NormalNumbers(*device, row.dtype, m * k),
                            NormalNumbers(*device, row.dtype, k * n), device->Allocate(m * n * SizeOf(row.dtype))};
    if (x.a == nullptr || x.b == nullptr || x.c == nullptr) return absl::ResourceExhaustedError("no memory");
    OF_ASSIGN_OR_RETURN(TimedWay ours, OurWay(*device, x));
    std::vector<std::pair<TimedWay, double*>> ways = {{std::move(ours), &row.ours}};
    for (const bool packed : {false, true}) {
      absl::StatusOr<TimedWay> way = LibraryWay(x, packed);
      if (way.ok()) ways.push_back({*std::move(way), packed ? &row.packed : &row.library});
    }
    return TimeInTurn(ways, kGemmSeconds, context_.stop);
  }

  absl::Status RunPyTorchGemms() {
    nlohmann::json asked = {{"threads", context_.cores}, {"seconds", kGemmSeconds}, {"repeats", kLeastRepeats}};
    for (const GemmRow& row : rows_) asked["products"].push_back(KeyOf(row));
    OF_ASSIGN_OR_RETURN(const std::optional<nlohmann::json> answer, AskPyTorch(context_, "pytorch_gemm", asked));
    if (!answer.has_value()) {
      pytorch_ = absl::StrCat("'", context_.pytorch, "' has no PyTorch");
      return absl::OkStatus();
    }
    const nlohmann::json& told = *answer;
    pytorch_ = told.value("title", "PyTorch");
    const PyTorchGemms seconds = told["seconds"].get<PyTorchGemms>();
    for (GemmRow& row : rows_) {
      if (const auto found = seconds.find(KeyOf(row)); found != seconds.end()) KeepShorter(found->second, row.pytorch);
    }
    return absl::OkStatus();
  }

  const BenchContext& context_;
  std::vector<GemmRow> rows_;
  std::string pytorch_;  // its title, or why there is none
};

}  // namespace

double GemmRow::ratio() const {
  double best = 0;
  for (const double seconds : {library, packed, pytorch}) {
    if (seconds > 0) KeepShorter(seconds, best);
  }
  return ours > 0 ? best / ours : 0;
}

std::string GemmText(const std::vector<GemmRow>& rows, int cores, const std::string& pytorch) {
  std::string text = absl::StrFormat("gemm: GF/s on %d cores, kernels of %s; best of repetitions%s\n", cores,
                                     TheCpuVariant().name, pytorch.empty() ? "" : absl::StrCat("; ", pytorch));
  absl::StrAppendFormat(&text, "  %-26s %9s %9s %9s %9s   %s\n", "m, n, k", "ours", "oneDNN", "packed", "PyTorch",
                        "ours / best of the others");
  for (const GemmRow& row : rows) {
    const auto rate = [&](double seconds) {
      return seconds > 0 ? absl::StrFormat("%.0f", 1e-9 * row.shape.flops() / seconds) : std::string("-");
    };
    const double ratio = row.ratio();
    absl::StrAppendFormat(
        &text, "  %-26s %9s %9s %9s %9s   %s%s\n",
        absl::StrFormat("%d, %d, %d  %s", row.shape.m, row.shape.n, row.shape.k, NameOfType(row.dtype)), rate(row.ours),
        rate(row.library), rate(row.packed), rate(row.pytorch), ratio > 0 ? absl::StrFormat("%.2f", ratio) : "-",
        ratio > 0 && ratio < kSlowerBy ? "  slower" : "");
  }
  return text;
}

std::unique_ptr<BenchCase> MakeGemmCase(const BenchContext& context) { return std::make_unique<GemmCase>(context); }

}  // namespace oneflow
