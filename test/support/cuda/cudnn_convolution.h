// A convolution of cuDNN, or one of its gradients, on a device in software: what is asked for, and the work on the
// stream.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

namespace oneflow::software_cuda::cudnn {

// A tensor [n, c, h, w]; a filter has its output channels as n. Invalid until set.
struct Shape {
  bool valid = false;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int64_t n = 0, c = 0, h = 0, w = 0;

  int64_t plane() const { return h * w; }
  int64_t count() const { return n * c * h * w; }
  size_t num_bytes() const { return count() * (type == CUDNN_DATA_FLOAT ? sizeof(float) : sizeof(uint16_t)); }
};

}  // namespace oneflow::software_cuda::cudnn

struct cudnnTensorStruct : oneflow::software_cuda::cudnn::Shape {};
struct cudnnFilterStruct : oneflow::software_cuda::cudnn::Shape {};

struct cudnnConvolutionStruct {
  bool valid = false;
  int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace oneflow::software_cuda::cudnn {

enum class Operation { kForward, kBackwardData, kBackwardFilter };

struct Problem {
  Operation operation;
  Shape x, w, y;
  cudnnConvolutionStruct convolution;

  const Shape& result() const {
    return operation == Operation::kForward ? y : operation == Operation::kBackwardData ? x : w;
  }
  size_t plane_bytes() const { return result().plane() * sizeof(float); }
};

struct Work {
  Problem p;
  float alpha, beta;
  const void *x, *w, *y;  // the result's is null
  void* result;
  float* workspace;  // null: none
  size_t workspace_bytes;
  int64_t first;  // of what is summed over
  bool rounds;    // the sums
  int algorithm;  // cuDNN's number
};

// Checks the operands' memory, takes the time that tests say the algorithm takes, and computes.
void Run(const Work& work);

}  // namespace oneflow::software_cuda::cudnn
