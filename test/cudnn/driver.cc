// A CUDA driver without devices, as libcuda.so.1: what cuDNN looks for while it makes kernels for a device that is
// described to it. Modules "load", since nothing runs them; CUDA's own runtime is told that there is no device.
#include <cstdlib>

namespace {

constexpr int kSuccess = 0, kNoDevice = 100;

int Make(void** made) {
  static char something[64];
  *made = something;
  return kSuccess;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return kNoDevice; }

int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  return Make(library);
}
int cuLibraryGetKernel(void** kernel, void*, const char*) { return Make(kernel); }
int cuModuleLoadData(void** module, const void*) { return Make(module); }
int cuModuleLoadDataEx(void** module, const void*, unsigned, void*, void*) { return Make(module); }
int cuModuleGetFunction(void** function, void*, const char*) { return Make(function); }

// Nothing that is asked of these here has an answer.
#define OF_DOES_NOTHING(function) \
  int function() { return kSuccess; }
OF_DOES_NOTHING(cuCtxGetCurrent)
OF_DOES_NOTHING(cuCtxGetDevice)
OF_DOES_NOTHING(cuCtxGetLimit)
OF_DOES_NOTHING(cuCtxPopCurrent)
OF_DOES_NOTHING(cuCtxPushCurrent)
OF_DOES_NOTHING(cuDeviceGet)
OF_DOES_NOTHING(cuDeviceGetAttribute)
OF_DOES_NOTHING(cuDeviceGetCount)
OF_DOES_NOTHING(cuDevicePrimaryCtxRelease)
OF_DOES_NOTHING(cuDevicePrimaryCtxReset)
OF_DOES_NOTHING(cuDevicePrimaryCtxRetain)
OF_DOES_NOTHING(cuDriverGetVersion)
OF_DOES_NOTHING(cuFuncGetAttribute)
OF_DOES_NOTHING(cuFuncSetAttribute)
OF_DOES_NOTHING(cuGetErrorName)
OF_DOES_NOTHING(cuGetErrorString)
OF_DOES_NOTHING(cuKernelGetAttribute)
OF_DOES_NOTHING(cuKernelSetAttribute)
OF_DOES_NOTHING(cuLaunchCooperativeKernel)
OF_DOES_NOTHING(cuLaunchKernel)
OF_DOES_NOTHING(cuLaunchKernelEx)
OF_DOES_NOTHING(cuLibraryLoadFromFile)
OF_DOES_NOTHING(cuLibraryUnload)
OF_DOES_NOTHING(cuLinkAddData)
OF_DOES_NOTHING(cuLinkAddData_v2)
OF_DOES_NOTHING(cuLinkAddFile_v2)
OF_DOES_NOTHING(cuLinkComplete)
OF_DOES_NOTHING(cuLinkCreate)
OF_DOES_NOTHING(cuLinkCreate_v2)
OF_DOES_NOTHING(cuLinkDestroy)
OF_DOES_NOTHING(cuMemcpyDtoH_v2)
OF_DOES_NOTHING(cuModuleGetGlobal_v2)
OF_DOES_NOTHING(cuModuleLoadFatBinary)
OF_DOES_NOTHING(cuModuleUnload)
OF_DOES_NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
OF_DOES_NOTHING(cuOccupancyMaxPotentialClusterSize)
OF_DOES_NOTHING(cuStreamGetCtx)
OF_DOES_NOTHING(cuStreamSynchronize)
OF_DOES_NOTHING(cuTensorMapEncodeTiled)
#undef OF_DOES_NOTHING

}  // extern "C"
