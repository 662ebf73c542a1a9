// The functions of cuBLASLt that kernels call, each of which finds its namesake in the library when it is first called
// and passes on. Linked like the others, the library would be part of every process: 200 MB of it and half a second of
// its start, though schedulers, daemons, commands and workers on CPUs never multiply on a CUDA device.
#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdio>

namespace {

// Null if the library cannot be loaded, which is then said once.
void* Library() {
  static void* const library = [] {
    void* const loaded = dlopen(ONEFLOW_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) std::fprintf(stderr, "cuBLASLt cannot be loaded: %s\n", dlerror());
    return loaded;
  }();
  return library;
}

template <typename Function>
Function* Find(const char* name) {
  return Library() == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(Library(), name));
}

}  // namespace

#define OF_PASS_ON(function, parameters, ...)                                        \
  cublasStatus_t function parameters {                                               \
    static auto* const found = Find<decltype(function)>(#function);                  \
    return found == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : (*found)(__VA_ARGS__); \
  }

extern "C" {

OF_PASS_ON(cublasLtCreate, (cublasLtHandle_t * handle), handle)
OF_PASS_ON(cublasLtDestroy, (cublasLtHandle_t handle), handle)
OF_PASS_ON(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType_t scale),
           desc, compute, scale)
OF_PASS_ON(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc), desc)
OF_PASS_ON(cublasLtMatmulDescSetAttribute,
           (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void* value, size_t size), desc,
           attribute, value, size)
OF_PASS_ON(cublasLtMatrixLayoutCreate,
           (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld), layout,
           type, rows, columns, ld)
OF_PASS_ON(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), layout)
OF_PASS_ON(cublasLtMatrixLayoutSetAttribute,
           (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value, size_t size),
           layout, attribute, value, size)
OF_PASS_ON(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), preference)
OF_PASS_ON(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), preference)
OF_PASS_ON(cublasLtMatmulPreferenceSetAttribute,
           (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
            size_t size),
           preference, attribute, value, size)
OF_PASS_ON(cublasLtMatmulAlgoGetHeuristic,
           (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int asked,
            cublasLtMatmulHeuristicResult_t results[], int* found_results),
           handle, desc, a, b, c, d, preference, asked, results, found_results)
OF_PASS_ON(cublasLtMatmulAlgoCheck,
           (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
            cublasLtMatmulHeuristicResult_t* result),
           handle, desc, a, b, c, d, algorithm, result)
OF_PASS_ON(cublasLtMatmul,
           (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
            cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
            const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
            const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes, cudaStream_t stream),
           handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
           workspace_bytes, stream)

size_t cublasLtGetVersion() {
  static auto* const found = Find<decltype(cublasLtGetVersion)>("cublasLtGetVersion");
  return found == nullptr ? 0 : found();
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  static auto* const found = Find<decltype(cublasLtGetStatusString)>("cublasLtGetStatusString");
  return found == nullptr ? "cuBLASLt cannot be loaded" : found(status);
}

}  // extern "C"
