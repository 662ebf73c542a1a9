// OF_HOST_DEVICE marks what CUDA kernels call too; elsewhere it says nothing.
#pragma once

#ifdef __CUDACC__
#define OF_HOST_DEVICE __host__ __device__
#else
#define OF_HOST_DEVICE
#endif
