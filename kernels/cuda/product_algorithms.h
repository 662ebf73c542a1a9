// Which algorithm of cuBLASLt each product takes, and of cuDNN each convolution, as a file says: measured once on a
// kind of GPU, the same in every later run.
//
//   oneflow products 1
//   gpu NVIDIA H100 80GB HBM3, cublaslt 130100, driver 13000
//   bf16 bf16 nt 4096x3072x768 x1 0 0 0 sum 0 align 64 = 0 3a ... 1f check 9c5f2e01
//   cudnn 91900 conv2d f32 fma 8x3x32x32 16x3x3x3 8x16x32x32 stride 1 padding 1 = 1 3 0 ... 0 check 02c1d7aa
//
// The library says that its algorithms may be kept as bytes for the same version of itself; rows are for the GPU and
// the versions that the second line names. Of several rows for one product the first holds.
//
//   ONEFLOW_CUDA_PRODUCTS=FILE                          what the file lacks takes the library's first choice
//   ONEFLOW_CUDA_PRODUCTS=FILE ONEFLOW_CUDA_MEASURE=1   is measured when it is first asked for, and added to the file
//
// A file that is not there, damaged, or of another GPU or version is told once, in a line of the process' log, and
// neither used nor written.
#pragma once

#include <cublasLt.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace oneflow::cuda {

// Any thread.
class ProductAlgorithms {
 public:
  // As the environment says, when it is first asked for; for the device that is current then.
  static ProductAlgorithms& OfProcess();

  // No file: the library's first choices. `where`: GPU and versions.
  ProductAlgorithms() = default;
  ProductAlgorithms(std::string file, const std::string& where, bool measure);

  // "gpu NAME, cublaslt VERSION, driver VERSION" of the current device.
  static std::string Where();

  std::optional<cublasLtMatmulAlgo_t> Find(const std::string& product) const;
  // Whether what is not found is to be measured and added.
  bool measures() const { return measures_; }
  void Add(const std::string& product, const cublasLtMatmulAlgo_t& algorithm);

  // What is wrong with the file; empty: nothing.
  const std::string& error() const { return error_; }

 private:
  void Read(const std::string& where);
  // What is wrong with the text of a file; empty: nothing.
  std::string Parse(const std::string& text, const std::string& where);

  std::string file_, error_;
  bool measures_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms_;  // by product
};

}  // namespace oneflow::cuda
