// The algorithms of cuBLASLt for products and of cuDNN for convolutions, kept in a file. They are measured once on a
// kind of GPU, and every later run uses the same.
//
//   oneflow products 1
//   gpu NVIDIA H100 80GB HBM3, cublaslt 130100, driver 13000
//   bf16 bf16 nt 4096x3072x768 x1 0 0 0 sum 0 align 64 = 0 3a ... 1f check 9c5f2e01
//   cudnn 91900 conv2d f32 fma 8x3x32x32 16x3x3x3 8x16x32x32 stride 1 padding 1 = 1 3 0 ... 0 check 02c1d7aa
//
// cuBLASLt allows its algorithms to be stored as bytes for the same version of the library. The second line names the
// GPU and the versions. If a product has several rows, the first counts.
//
//   ONEFLOW_CUDA_PRODUCTS=FILE                          what the file lacks takes the library's first choice
//   ONEFLOW_CUDA_PRODUCTS=FILE ONEFLOW_CUDA_MEASURE=1   is measured when it is first asked for, and added to the file
//
// If the file is missing, damaged, or for another GPU or version, it is neither used nor written, and the process logs
// one line.
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
  // The file that the environment names, for the device that is current at the first call.
  static ProductAlgorithms& OfProcess();

  // Without a file: the library's first choices. `where`: GPU and versions.
  ProductAlgorithms() = default;
  ProductAlgorithms(std::string file, const std::string& where, bool measure);

  // "gpu NAME, cublaslt VERSION, driver VERSION" of the current device.
  static std::string Where();

  std::optional<cublasLtMatmulAlgo_t> Find(const std::string& product) const;
  // Whether missing algorithms are measured and added.
  bool measures() const { return measures_; }
  void Add(const std::string& product, const cublasLtMatmulAlgo_t& algorithm);

  // The error of the file; empty: none.
  const std::string& error() const { return error_; }

 private:
  void Read(const std::string& where);
  // The error in the text of a file; empty: none.
  std::string Parse(const std::string& text, const std::string& where);

  std::string file_, error_;
  bool measures_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms_;  // by product
};

}  // namespace oneflow::cuda
