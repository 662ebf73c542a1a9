// OF_HOST_DEVICE marks functions that CUDA kernels call too. It is empty where no CUDA is compiled.
#pragma once

#ifdef __CUDACC__
#define OF_HOST_DEVICE __host__ __device__
#else
#define OF_HOST_DEVICE
#endif
