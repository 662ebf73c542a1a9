// Adapters (compiler/adapters.h) in the form of Hugging Face's PEFT, a folder of two files:
//
//   adapter_config.json           r, lora_alpha, target_modules, ...
//   adapter_model.safetensors     base_model.model.MODULE.lora_A.weight [r, in] and .lora_B.weight [out, r]
//                                 base_model.model.NAME of a tensor that is trained itself (modules_to_save)
//
// A module is a tensor of theirs with the products of its adapter: [out, in], or [in, out] of GPT-2's "Conv1D". Where
// several of our variables are one tensor (GPT-2's q, k and v), their adapters lie in the module's side by side:
//
//   lora_A   a of q        lora_B   b of q   0        0          outputs of q
//            a of k                 0        b of k   0          outputs of k
//            a of v                 0        0        b of v     outputs of v
//
// PEFT itself gives such a module one lora_A for all outputs; each of ours gets a copy of it then.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/status.h"
#include "tools/study/weights/correspondence.h"
#include "tools/study/weights/model_variables.h"
#include "tools/study/weights/weights.h"

namespace oneflow {

inline constexpr char kAdapterConfig[] = "adapter_config.json", kAdapterFile[] = "adapter_model.safetensors";

// A tensor of theirs some of whose variables have an adapter.
struct AdaptedModule {
  // A variable, and which outputs of the module it makes.
  struct Part {
    std::string variable;
    Shape shape;  // of the variable
    bool has_adapter = false;
    bool read_transposed = false;  // as JobModel has it
    int64_t begin = 0, extent = 0;
  };
  std::string name;  // "transformer.h.0.attn.c_attn"
  int64_t inputs = 0, outputs = 0;
  bool outputs_last = false;  // the tensor is [in, out]
  std::vector<Part> parts;    // by ascending `begin`
  int64_t num_adapters = 0;   // parts that have one

  std::string lora_a() const;  // names of tensors of the folder
  std::string lora_b() const;
};

// Of all tensors that have a variable with an adapter. Unimplemented, naming both, if an adapter is of some of a
// module's inputs, or a module's variables lie in it in two ways.
absl::StatusOr<std::vector<AdaptedModule>> AdaptedModules(const JobModel& model,
                                                          const std::vector<TheirTensor>& tensors);

// The name in the folder of a tensor that is trained itself.
std::string SavedName(const std::string& tensor);

// The factors of one adapter as PEFT has them: lora_A [r, in] and lora_B [out, r]; and as ours: W/lora_a and W/lora_b.
struct LowRank {
  std::vector<float> a, b;
};
LowRank TheirsOf(const AdaptedModule::Part& part, const LowRank& ours, int64_t rank);
LowRank OursOf(const AdaptedModule::Part& part, const LowRank& theirs, int64_t rank);
// The module's, from those of the parts that have an adapter, in their order.
LowRank Joined(const AdaptedModule& module, const std::vector<LowRank>& parts, int64_t rank);

// `saved`: modules that are trained themselves.
nlohmann::ordered_json PeftConfig(const JobModel& model, const std::vector<AdaptedModule>& modules,
                                  const std::set<std::string>& saved);

// A folder that was found to fit a job's model.
class PeftFolder {
 public:
  // Reads the config and compares the tensors. `prefix`: what names lack in the folder of a model without its head.
  // NotFound if a file is missing; InvalidArgument with a line for each tensor that is missing, surplus or of another
  // shape; if a rank or scale is not the job's; for kinds of adapters that jobs do not have.
  static absl::StatusOr<PeftFolder> Open(const std::string& folder, const JobModel& model,
                                         const std::vector<TheirTensor>& tensors, const std::string& prefix);

  const Weights& weights() const { return weights_; }
  const std::vector<AdaptedModule>& modules() const { return modules_; }
  int64_t rank() const { return rank_; }  // of the job's adapters
  // Under which name the folder has a tensor that takes the place of the model's; empty: it has none.
  std::string Saved(const std::string& tensor) const;
  // The factors of each part of the module, in their order; of those without an adapter none. InvalidArgument if the
  // folder changes a variable that has no adapter in the job, or the ranks of several parts cannot be told apart.
  absl::StatusOr<std::vector<LowRank>> FactorsOf(const AdaptedModule& module) const;

 private:
  explicit PeftFolder(Weights weights) : weights_(std::move(weights)) {}

  absl::Status Compare(const std::string& folder, const JobModel& model, const std::vector<TheirTensor>& tensors,
                       const std::string& prefix);
  // Of `name` or, where the folder lacks it, of the name without the prefix.
  std::string Found(const std::string& name) const;

  Weights weights_;
  std::vector<AdaptedModule> modules_;
  std::set<std::string> saved_;
  std::string prefix_;
  int64_t rank_ = 0;
};

}  // namespace oneflow
