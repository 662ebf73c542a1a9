// The tensors of a model in one or several safetensors files, by name.
//
//   model.safetensors                         one file, or
//   model.safetensors.index.json              {"weight_map": {"h.0.weight": "model-00001-of-00002.safetensors", ...}}
//   model-00001-of-00002.safetensors, ...     and the files that it names
//
// Nothing is read but headers until somebody asks for bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actor/checkpoint/safetensors.h"
#include "actor/checkpoint/stored_type.h"
#include "oneflow_core/status.h"

namespace oneflow {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kModelIndex[] = "model.safetensors.index.json";

// Thread-safe. Holds the files open.
class WeightFiles {
 public:
  struct Tensor {
    StoredType type;
    int file = 0;  // of files()
  };

  // One file. Errors of SafetensorsReader::Open().
  static absl::StatusOr<WeightFiles> OpenFile(const std::string& path);
  // A folder as Hugging Face's libraries write it; of both, the single file counts. NotFound if it has neither;
  // InvalidArgument naming the file, and the tensor, if a file or the index is malformed, the index names a file
  // outside of the folder or a tensor that its file lacks, or two files have a tensor of one name.
  static absl::StatusOr<WeightFiles> OpenFolder(const std::string& folder);
  // Whether there is such a folder.
  static bool IsFolder(const std::string& folder);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::vector<std::string>& files() const { return files_; }                               // paths
  const std::map<std::string, std::string>& metadata() const { return readers_[0].metadata(); }  // of the first file

  // Copies bytes [first, first + num_bytes) of the tensor. Errors of SafetensorsReader::Read(). REQUIRES: there is such
  // a tensor, and the bytes lie in it.
  absl::Status Read(const std::string& name, int64_t first, int64_t num_bytes, void* to) const;

 private:
  absl::Status Add(const std::string& path);

  std::vector<std::string> files_;
  std::vector<SafetensorsReader> readers_;  // one for each file
  std::map<std::string, Tensor> tensors_;
};

}  // namespace oneflow
