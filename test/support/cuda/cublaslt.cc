// cuBLASLt on a device in software (include/cublasLt.h). Descriptors are read when a product is enqueued; what runs on
// the stream has copies of all it needs.
#include <cublasLt.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "test/support/cuda/cublaslt_product.h"
#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/system.h"

struct cublasLtContext {
  int device;
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t max_workspace_bytes = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c, d, in bytes
};

namespace {

using oneflow::software_cuda::Enqueue;
using oneflow::software_cuda::HoldOn;
using oneflow::software_cuda::kCublasLtBytes;
using oneflow::software_cuda::LetGoOn;
using oneflow::software_cuda::cublaslt::ElementBytes;
using oneflow::software_cuda::cublaslt::kWorkspaceBytes;
using oneflow::software_cuda::cublaslt::Problem;
using oneflow::software_cuda::cublaslt::Run;
using oneflow::software_cuda::cublaslt::Work;

constexpr uintptr_t kWorkspaceAlignment = 256;  // as documented for cublasLtMatmul

// cublasLtMatmulAlgo_t::data.
enum AlgoField { kMagic, kProblem, kWorkspace, kAlignment, kNumber = kAlignment + 4 };
constexpr uint64_t kAlgoMagic = 0x736f667477617265;

bool IsAligned(const void* p, uint64_t alignment) { return reinterpret_cast<uintptr_t>(p) % alignment == 0; }

// --- descriptors ---

template <typename T>
cublasStatus_t Create(T** result, const T& value) {
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *result = new (std::nothrow) T(value);
  return *result == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t Destroy(T* x) {
  delete x;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t Set(T& field, const void* value, size_t size) {
  if (value == nullptr || size != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

// --- what is asked for ---

bool IsOperation(int32_t x) { return x == CUBLAS_OP_N || x == CUBLAS_OP_T; }

// Operands of one type, which may be summed up to it or to floats.
bool AreTypesKnown(const Problem& p) {
  return p.a.type == p.b.type && p.c.type == p.d.type && (p.d.type == p.a.type || p.d.type == CUDA_R_32F);
}

cublasStatus_t CheckLayout(const cublasLtMatrixLayoutOpaque_t& x) {
  if (ElementBytes(x.type) == 0 || x.rows > INT_MAX || x.columns > INT_MAX) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool valid =
      x.rows > 0 && x.columns > 0 && x.ld >= static_cast<int64_t>(x.rows) && x.batch > 0 && x.stride >= 0;
  return valid ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

bool SameShape(const cublasLtMatrixLayoutOpaque_t& x, uint64_t rows, uint64_t columns, int32_t batch) {
  return x.rows == rows && x.columns == columns && x.batch == batch;
}

cublasStatus_t CheckShapes(const Problem& p) {
  const auto dims = [](bool transposed, int64_t rows, int64_t columns) {
    return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  const auto [a_rows, a_columns] = dims(p.transpose_a, p.m, p.k);
  const auto [b_rows, b_columns] = dims(p.transpose_b, p.k, p.n);
  const int32_t batch = p.d.batch;
  const bool agree = SameShape(p.a, a_rows, a_columns, batch) && SameShape(p.b, b_rows, b_columns, batch) &&
                     SameShape(p.c, p.m, p.n, batch);
  const bool distinct = batch == 1 || p.d.stride != 0;  // else all would write one matrix
  return agree && distinct ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

// INVALID_VALUE where something is missing or does not fit together, NOT_SUPPORTED for what this device does not
// compute.
cublasStatus_t MakeProblem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                           cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, Problem* result) {
  if (desc == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if ((desc->compute != CUBLAS_COMPUTE_32F && !tf32) || desc->scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (tf32 && a->type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!IsOperation(desc->transpose_a) || !IsOperation(desc->transpose_b)) return CUBLAS_STATUS_INVALID_VALUE;
  for (const cublasLtMatrixLayoutOpaque_t* layout : {a, b, c, d}) {
    const cublasStatus_t status = CheckLayout(*layout);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  Problem p = {.transpose_a = desc->transpose_a == CUBLAS_OP_T,
               .transpose_b = desc->transpose_b == CUBLAS_OP_T,
               .tf32 = tf32,
               .m = static_cast<int64_t>(d->rows),
               .n = static_cast<int64_t>(d->columns),
               .k = static_cast<int64_t>(desc->transpose_a == CUBLAS_OP_T ? a->rows : a->columns),
               .batch = d->batch,
               .a = *a,
               .b = *b,
               .c = *c,
               .d = *d};
  if (!AreTypesKnown(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = p;
  return CheckShapes(p);
}

// FNV-1a over the numbers that describe the problem.
uint64_t Hash(const Problem& p) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint64_t x) { hash = (hash ^ x) * 0x100000001b3; };
  add(p.transpose_a), add(p.transpose_b), add(p.tf32);
  for (const cublasLtMatrixLayoutOpaque_t* x : {&p.a, &p.b, &p.c, &p.d}) {
    add(x->type), add(x->rows), add(x->columns), add(x->ld), add(x->batch), add(x->stride);
  }
  return hash;
}

// Algorithms differ in nothing but their numbers, and in the time that tests say they take.
constexpr int kAlgorithms = oneflow::software_cuda::kProductAlgorithms;

cublasLtMatmulAlgo_t MakeAlgo(const Problem& p, const cublasLtMatmulPreferenceOpaque_t& preference, int number = 0) {
  cublasLtMatmulAlgo_t algo = {};
  algo.data[kMagic] = kAlgoMagic;
  algo.data[kProblem] = Hash(p);
  algo.data[kWorkspace] = preference.max_workspace_bytes >= kWorkspaceBytes ? kWorkspaceBytes : 0;
  algo.data[kNumber] = static_cast<uint64_t>(number);
  std::copy(std::begin(preference.alignment), std::end(preference.alignment), algo.data + kAlignment);
  return algo;
}

cublasStatus_t CheckHandle(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  int device = -1;
  const bool current = cudaGetDevice(&device) == cudaSuccess && device == handle->device;
  return current ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// The workspace that the algorithm is going to use, if it was made for this problem, these pointers are aligned as it
// was told, and it has the workspace it asked for.
cublasStatus_t CheckAlgo(const cublasLtMatmulAlgo_t& algo, const Work& w, size_t workspace_bytes) {
  if (algo.data[kNumber] >= kAlgorithms) return CUBLAS_STATUS_INVALID_VALUE;
  if (algo.data[kMagic] != kAlgoMagic || algo.data[kProblem] != Hash(w.p)) return CUBLAS_STATUS_INVALID_VALUE;
  const void* const operands[] = {w.a, w.b, w.beta == 0 ? w.d : w.c, w.d};
  for (int i = 0; i < 4; ++i) {
    if (!IsAligned(operands[i], algo.data[kAlignment + i])) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const size_t needed = algo.data[kWorkspace];
  if (needed > workspace_bytes || (needed > 0 && w.workspace == nullptr)) return CUBLAS_STATUS_INVALID_VALUE;
  return IsAligned(w.workspace, kWorkspaceAlignment) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "cublas: there is no handle";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "cublas: out of memory";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "cublas: an argument is invalid";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "cublas: the device lacks a feature";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "cublas: device memory could not be accessed";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "cublas: the device did not take the work";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "cublas: internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "cublas: not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "cublas: no license";
  }
  return "cublas: unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!HoldOn(device, kCublasLtBytes)) return CUBLAS_STATUS_ALLOC_FAILED;
  return Create(handle, {device});
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  LetGoOn(handle->device, kCublasLtBytes);
  return Destroy(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  return Create(desc, {compute, scale});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return Destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(desc->transpose_a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(desc->transpose_b, value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  return Create(layout, {type, rows, columns, ld});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return Destroy(layout); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t size) {
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Set(layout->batch, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Set(layout->stride, value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) { return Create(preference, {}); }

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return Destroy(preference); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t size) {
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Set(preference->max_workspace_bytes, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Set(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  cublasStatus_t status = CheckHandle(handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (preference == nullptr || wanted < 1 || results == nullptr || found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  Problem p;
  status = MakeProblem(desc, a, b, c, d, &p);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  for (const uint32_t alignment : preference->alignment) {  // no algorithm does with less than an element's
    if (alignment == 0 || alignment % ElementBytes(p.a.type) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *found = std::min(wanted, kAlgorithms);
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algo = MakeAlgo(p, *preference, i);
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].wavesCount = 1;
    results[i].workspaceSize = results[i].algo.data[kWorkspace];
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  cublasStatus_t status = CheckHandle(handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (algo == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Problem p;
  status = MakeProblem(desc, a, b, c, d, &p);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (algo->data[kMagic] != kAlgoMagic || algo->data[kProblem] != Hash(p) || algo->data[kNumber] >= kAlgorithms) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *result = {};
  result->workspaceSize = algo->data[kWorkspace];
  result->wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return 130'000; }

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  cublasStatus_t status = CheckHandle(handle);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || d == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Work w = {.p = {},
            .alpha = *static_cast<const float*>(alpha),
            .beta = *static_cast<const float*>(beta),
            .a = a,
            .b = b,
            .c = c,
            .d = d,
            .workspace = static_cast<float*>(workspace)};
  status = MakeProblem(desc, a_layout, b_layout, c_layout, d_layout, &w.p);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const bool in_place = c == d && (w.p.c.ld != w.p.d.ld || w.p.c.stride != w.p.d.stride);
  if (w.beta != 0 && (c == nullptr || in_place)) return CUBLAS_STATUS_INVALID_VALUE;
  // Without an algorithm the library chooses one that needs nothing.
  const uint32_t element = ElementBytes(w.p.a.type);
  const cublasLtMatmulAlgo_t chosen =
      algo != nullptr ? *algo : MakeAlgo(w.p, {0, {element, element, element, element}});
  status = CheckAlgo(chosen, w, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (chosen.data[kWorkspace] == 0) w.workspace = nullptr;
  w.algorithm = static_cast<int>(chosen.data[kNumber]);
  oneflow::software_cuda::System::Get().CountLaunch({.multiplications = w.p.batch * w.p.m * w.p.n * w.p.k});
  const cudaError_t error = Enqueue(stream, "cublasLtMatmul", [w] { Run(w); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
