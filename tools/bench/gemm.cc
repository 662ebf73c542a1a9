#include "tools/bench/gemm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cpu/variant.h"
#include "kernels/device.h"
#include "nlohmann/json.hpp"
#include "oneapi/dnnl/dnnl.hpp"
#include "oneflow_core/packed.h"
#include "tools/bench/pytorch_case.h"
#include "tools/daemon/log_tail.h"
#include "tools/process/write_file.h"

namespace oneflow {
namespace {

// Of a step of 1,024 tokens: queries, keys and values at once, attention's output, the mlp's two layers, the head; and
// the gradients of the weights of a layer and of the head.
constexpr GemmShape kGemmShapes[] = {{1024, 2304, 768},  {1024, 768, 768},  {1024, 3072, 768}, {1024, 768, 3072},
                                     {1024, 50304, 768}, {768, 3072, 1024}, {50304, 768, 1024}};
constexpr DType kGemmTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr int kLeastRepeats = 3;
constexpr double kGemmSeconds = 0.5;        // of all ways of a product in a round, repeated that long
constexpr double kSlowerBy = 0.9;           // below this our kernel is said to be slower
constexpr size_t kNormals = (1 << 20) + 7;  // numbers drawn; they repeat, at no row's length

const char* NameOfType(DType dtype) { return dtype == DType::kBFloat16 ? "bf16" : "f32"; }

uint16_t RoundedBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

const std::vector<float>& Normals() {
  static const std::vector<float>* const values = [] {
    auto* const made = new std::vector<float>(kNormals);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (float& value : *made) value = normal(random);
    return made;
  }();
  return *values;
}

// A matrix of normal numbers in memory of the device; null if there is none left.
void* NormalMatrix(DeviceContext& device, DType dtype, int64_t count) {
  void* const data = device.Allocate(count * SizeOf(dtype));
  const std::vector<float>& normals = Normals();
  for (int64_t i = 0; i < count && data != nullptr; ++i) {
    const float value = normals[i % normals.size()];
    if (dtype == DType::kFloat32) static_cast<float*>(data)[i] = value;
    if (dtype == DType::kBFloat16) static_cast<uint16_t*>(data)[i] = RoundedBf16(value);
  }
  return data;
}

struct GemmOperands {
  GemmShape shape;
  DType dtype;
  void *a, *b, *c;
};

// One way to make a product. Null, or what failed.
using GemmWay = std::function<const char*()>;

// What a kernel is called with, and what that points to.
struct OurGemm {
  std::vector<int64_t> a_dims, b_dims, c_dims, start = std::vector<int64_t>(4, 0);
  TensorArg in[2], out[1];
  AttrMap attrs;
  KernelArgs args;
  std::shared_ptr<void> state;
};

// As a step multiplies: a weight of bf16 lies in panels, if they are whole.
absl::StatusOr<GemmWay> OurWay(DeviceContext& device, const GemmOperands& x) {
  const auto [m, n, k] = x.shape;
  const bool packed = x.dtype == DType::kBFloat16 && HasWholePanels(k, n);
  const char* const op = packed ? "packed_matmul" : "matmul";
  const Kernel* const kernel = device.kernels().Find(op, x.dtype);
  if (kernel == nullptr) return absl::InternalError(absl::StrCat("there is no ", op, " of ", NameOfType(x.dtype)));
  auto call = std::make_shared<OurGemm>();
  call->a_dims = {m, k};
  call->c_dims = {m, n};
  call->b_dims = packed ? PackedShape(k, n).dims() : std::vector<int64_t>{k, n};
  const auto tensor = [&](void* data, int64_t count, const std::vector<int64_t>& dims) {
    return TensorArg{data, x.dtype, static_cast<int>(dims.size()), count, dims.data(), dims.data(), call->start.data()};
  };
  call->in[0] = tensor(x.a, m * k, call->a_dims);
  call->in[1] = tensor(x.b, k * n, call->b_dims);
  call->out[0] = tensor(x.c, m * n, call->c_dims);
  call->args = {.in = call->in, .out = call->out, .attrs = &call->attrs, .threads = device.threads()};
  if (kernel->prepare != nullptr) {
    call->state = kernel->prepare(call->args);
    if (call->state == nullptr) return absl::InternalError(absl::StrCat(op, ": its kernel does not take these shapes"));
    call->args.state = call->state.get();
  }
  if (kernel->workspace_bytes != nullptr) call->args.workspace = device.Allocate(kernel->workspace_bytes(call->args));
  return GemmWay([kernel, call] { return kernel->run(call->args); });
}

// oneDNN's matmul; `packed`: of b in the format that it likes best, brought there beforehand.
absl::StatusOr<GemmWay> LibraryWay(const GemmOperands& x, bool packed) {
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
    return GemmWay([product = dnnl::matmul(desc), stream, weights, from = memory(a, engine, x.a),
                    to = memory(c, engine, x.c)]() mutable -> const char* {
      product.execute(stream, {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, to}});
      stream.wait();
      return nullptr;
    });
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN: ", error.what()));
  }
}

void KeepShorter(double seconds, double& best) {
  if (best == 0 || seconds < best) best = seconds;
}

// Every way in turn, until they have been repeated for long enough.
absl::Status TimeInTurn(const std::vector<std::pair<GemmWay, double*>>& ways, const std::atomic<bool>& stop) {
  double spent = 0;
  for (int repeat = 0; repeat <= kLeastRepeats || spent < kGemmSeconds; ++repeat) {
    for (const auto& [way, best] : ways) {
      if (stop) return absl::CancelledError("interrupted");
      const auto start = std::chrono::steady_clock::now();
      const char* const error = way();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (error != nullptr) return absl::InternalError(error);
      spent += seconds;
      if (repeat > 0) KeepShorter(seconds, *best);  // the first finds its code and its memory cold
    }
  }
  return absl::OkStatus();
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
    const GemmOperands x = {row.shape, row.dtype, NormalMatrix(*device, row.dtype, m * k),
                            NormalMatrix(*device, row.dtype, k * n), device->Allocate(m * n * SizeOf(row.dtype))};
    if (x.a == nullptr || x.b == nullptr || x.c == nullptr) return absl::ResourceExhaustedError("no memory");
    OF_ASSIGN_OR_RETURN(GemmWay ours, OurWay(*device, x));
    std::vector<std::pair<GemmWay, double*>> ways = {{std::move(ours), &row.ours}};
    for (const bool packed : {false, true}) {
      absl::StatusOr<GemmWay> way = LibraryWay(x, packed);
      if (way.ok()) ways.push_back({*std::move(way), packed ? &row.packed : &row.library});
    }
    return TimeInTurn(ways, context_.stop);
  }

  absl::Status RunPyTorchGemms() {
    const std::string script = std::filesystem::path(context_.pytorch_script).parent_path() / "pytorch_gemm.py";
    if (!std::filesystem::exists(script))
      return absl::NotFoundError(absl::StrCat("'", script, "', beside --pytorch-script: there is no such file"));
    const std::string request = context_.dir + "/gemm.json", answer = context_.dir + "/gemm.answer.json",
                      log = context_.dir + "/gemm.log";
    nlohmann::json asked = {{"threads", context_.cores}, {"seconds", kGemmSeconds}, {"repeats", kLeastRepeats}};
    for (const GemmRow& row : rows_) asked["products"].push_back(KeyOf(row));
    OF_RETURN_IF_ERROR(WriteFile("file", request, asked.dump()));
    OF_ASSIGN_OR_RETURN_AT(const int code, RunPython(context_.pytorch, {script, request, answer}, log, context_.stop),
                           "PyTorch");
    if (code == kNoPyTorch) {
      pytorch_ = absl::StrCat("'", context_.pytorch, "' has no PyTorch");
      return absl::OkStatus();
    }
    std::ifstream stream(answer);
    const nlohmann::json told = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
    if (code != 0 || !told.is_object() || !told.contains("seconds")) {
      return absl::InternalError(absl::StrCat("PyTorch: '", script, "' ended with code ", code, "; it wrote:\n",
                                              LastLines(ReadTail(log, 4 << 10), 10)));
    }
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
