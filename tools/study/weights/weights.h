// Weights wherever they lie: a safetensors file, a folder in Hugging Face's form, a checkpoint, or a job's folder of
// checkpoints, which stands for its last. Of a checkpoint the weights alone, without the optimizer's state.
#pragma once

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/stored_type.h"
#include "actor/checkpoint/weight_files.h"
#include "oneflow_core/status.h"

namespace oneflow {

class Weights {
 public:
  struct Tensor {
    StoredType type;
    std::string file;  // name of the file without its folder; "3 pieces" of a tensor in several
  };

  explicit Weights(WeightFiles files);
  explicit Weights(CheckpointReader checkpoint);
  // NotFound if there is nothing of the kind; errors of WeightFiles and CheckpointReader.
  static absl::StatusOr<Weights> Open(const std::string& path);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  // Paths of what is read.
  std::vector<std::string> Files() const;
  // Variables that the file lacks on purpose (actor/checkpoint/fresh_variables.h).
  std::set<std::string> Fresh() const;
  // Copies the first `num_bytes` bytes of the tensor; of a checkpoint all of them are read and checked. Errors of the
  // readers. REQUIRES: there is such a tensor, and it has so many bytes.
  absl::Status Read(const std::string& name, int64_t num_bytes, char* to) const;

 private:
  std::variant<WeightFiles, CheckpointReader> from_;
  std::map<std::string, Tensor> tensors_;
};

// All of a tensor.
absl::StatusOr<std::vector<char>> ReadWhole(const Weights& weights, const std::string& name);

}  // namespace oneflow
