#include "kernels/cuda/cudnn_attention.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/handles.h"

namespace oneflow::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// What the library calls the tensors of a graph.
enum Uid : int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

class Graph : public CudnnAttention {
 public:
  explicit Graph(const AttentionProblem& problem) : problem_(problem), call_(CallOf(problem)) {
    const fe::DataType_t type = problem.dtype == DType::kBFloat16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
    graph_.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    problem.backward ? Backward() : Forward();
  }

  // On the device of the handle.
  fe::error_t Build(cudnnHandle_t handle) {
    fe::error_t error = graph_.build(handle, {fe::HeurMode_t::A});
    return error.is_good() ? graph_.get_workspace_size(workspace_bytes_) : error;
  }

  // Without one.
  fe::error_t BuildFor(std::shared_ptr<const fe::DeviceProperties> device) {
    graph_.set_device_properties(std::move(device));
    fe::error_t error = graph_.validate();
    if (error.is_good()) error = graph_.build_operation_graph();
    if (error.is_good()) error = graph_.create_execution_plans({fe::HeurMode_t::A});
    if (error.is_good()) error = graph_.check_support();
    if (error.is_good()) error = graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
    return error.is_good() ? graph_.get_workspace_size(workspace_bytes_) : error;
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(workspace_bytes_); }

  std::string name() const override {
    std::string name;
    return graph_.get_plan_name(name).is_good() ? name : "";
  }

  const char* Run(const AttentionTensors& tensors, void* workspace, cudaStream_t stream) const override {
    const cudnnHandle_t handle = ThreadDnnHandle();
    if (handle == nullptr) return "cudnnCreate failed";
    if (cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS) return "cudnnSetStream failed";
    for (int64_t sample = 0; sample < problem_.batch; sample += call_.samples) {
      for (int64_t head = 0; head < problem_.heads; head += call_.heads) {
        std::unordered_map<int64_t, void*> pack = Pack(tensors, sample, head);
        if (!graph_.execute(handle, pack, workspace).is_good()) return "cuDNN's attention failed";
      }
    }
    return nullptr;
  }

 private:
  int64_t columns() const { return problem_.heads * problem_.head_size; }
  int64_t kv_columns() const { return problem_.kv_heads * problem_.head_size; }
  int64_t group() const { return problem_.heads / problem_.kv_heads; }

  static bool IsOfKeys(Uid uid) { return uid == kK || uid == kV || uid == kDk || uid == kDv; }
  fe::graph::Tensor_attributes Operand(const char* name, Uid uid) const {
    const int64_t rows = IsOfKeys(uid) ? problem_.keys : problem_.tokens;
    const int64_t row = IsOfKeys(uid) ? kv_columns() : columns();
    return fe::graph::Tensor_attributes()
        .set_name(name)
        .set_uid(uid)
        .set_dim({call_.samples, IsOfKeys(uid) ? call_.heads / group() : call_.heads, rows, problem_.head_size})
        .set_stride({rows * row, problem_.head_size, row, 1});
  }
  fe::graph::Tensor_attributes Lse() const {
    return fe::graph::Tensor_attributes()
        .set_name("lse")
        .set_uid(kLse)
        .set_dim({call_.samples, call_.heads, problem_.tokens, 1})
        .set_stride({problem_.heads * problem_.tokens, problem_.tokens, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }
  Tensor Input(const char* name, Uid uid) { return graph_.tensor(Operand(name, uid)); }
  void IsResult(const Tensor& tensor, const fe::graph::Tensor_attributes& as) {
    tensor->set_output(true)
        .set_uid(as.get_uid())
        .set_name(as.get_name())
        .set_dim(as.get_dim())
        .set_stride(as.get_stride());
  }

  void Forward() {
    auto attributes = fe::graph::SDPA_attributes()
                          .set_name("attention")
                          .set_generate_stats(true)
                          .set_causal_mask(problem_.causal)
                          .set_attn_scale(problem_.scale);
    if (problem_.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(problem_.window));
    const auto [out, lse] = graph_.sdpa(Input("q", kQ), Input("k", kK), Input("v", kV), attributes);
    IsResult(out, Operand("out", kOut));
    IsResult(lse, Lse());
    lse->set_data_type(fe::DataType_t::FLOAT);
  }

  void Backward() {
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("attention_grad")
                          .set_causal_mask(problem_.causal)
                          .set_attn_scale(problem_.scale)
                          .set_deterministic_algorithm(true);
    if (problem_.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(problem_.window));
    const auto [dq, dk, dv] = graph_.sdpa_backward(Input("q", kQ), Input("k", kK), Input("v", kV), Input("out", kOut),
                                                   Input("dout", kDout), graph_.tensor(Lse()), attributes);
    IsResult(dq, Operand("dq", kDq));
    IsResult(dk, Operand("dk", kDk));
    IsResult(dv, Operand("dv", kDv));
  }

  // The tensors from that sample and head on.
  std::unordered_map<int64_t, void*> Pack(const AttentionTensors& x, int64_t sample, int64_t head) const {
    const auto from = [&](const void* data, Uid uid) {
      const int64_t element = IsOfKeys(uid)
                                  ? sample * problem_.keys * kv_columns() + head / group() * problem_.head_size
                                  : sample * problem_.tokens * columns() + head * problem_.head_size;
      return static_cast<char*>(const_cast<void*>(data)) + element * static_cast<int64_t>(SizeOf(problem_.dtype));
    };
    std::unordered_map<int64_t, void*> pack = {{kLse, x.lse + (sample * problem_.heads + head) * problem_.tokens}};
    const auto add = [&](Uid uid, const void* data) { pack[uid] = from(data, uid); };
    add(kQ, x.q);
    add(kK, x.k);
    add(kV, x.v);
    add(kOut, x.out);
    if (problem_.backward) {
      add(kDout, x.dout);
      add(kDq, x.dq);
      add(kDk, x.dk);
      add(kDv, x.dv);
    }
    return pack;
  }

  const AttentionProblem problem_;
  const AttentionCall call_;
  mutable fe::graph::Graph graph_;
  int64_t workspace_bytes_ = 0;
};

// cuDNN compiles by NVRTC, which loads this library of its own by name alone: where the linker does not know the
// toolkit's folder it is found only by who was linked with that.
void LoadWhatCompiles() {
  static void* const loaded = dlopen(ONEFLOW_NVRTC_BUILTINS, RTLD_NOW | RTLD_GLOBAL);
  (void)loaded;
}

// What threads of the process share.
struct Made {
  std::mutex mutex;
  std::map<std::pair<int, AttentionProblem>, std::weak_ptr<const CudnnAttention>> graphs;  // by device
  std::set<AttentionProblem> refused;
};

Made& MadeSoFar() {
  static Made* const made = new Made;
  return *made;
}

}  // namespace

std::shared_ptr<const CudnnAttention> MakeCudnnAttention(const AttentionProblem& problem) {
  int device = 0;
  const cudnnHandle_t handle = ThreadDnnHandle();
  if (handle == nullptr || cudaGetDevice(&device) != cudaSuccess) return nullptr;
  Made& made = MadeSoFar();
  const std::lock_guard<std::mutex> lock(made.mutex);
  std::weak_ptr<const CudnnAttention>& known = made.graphs[{device, problem}];
  if (std::shared_ptr<const CudnnAttention> graph = known.lock(); graph != nullptr) return graph;
  if (made.refused.count(problem) > 0) return nullptr;
  LoadWhatCompiles();
  auto graph = std::make_shared<Graph>(problem);
  fe::error_t error = graph->Build(handle);
  if (error.is_good()) {
    known = graph;
    return graph;
  }
  made.refused.insert(problem);
  std::fprintf(stderr, "cuDNN has no attention%s for heads of %lld columns and %lld tokens: %s\n",
               problem.backward ? " gradient" : "", static_cast<long long>(problem.head_size),
               static_cast<long long>(problem.tokens), error.get_message().c_str());
  return nullptr;
}

std::shared_ptr<const CudnnAttention> MakeCudnnAttentionFor(const std::string& device, const AttentionProblem& problem,
                                                            std::string* why) {
  LoadWhatCompiles();
  auto properties = std::make_shared<fe::DeviceProperties>();
  auto graph = std::make_shared<Graph>(problem);
  fe::error_t error = properties->deserialize({device.begin(), device.end()});
  if (error.is_good()) error = graph->BuildFor(properties);
  if (error.is_good()) return graph;
  *why = error.get_message();
  return nullptr;
}

}  // namespace oneflow::cuda
