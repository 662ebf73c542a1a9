// The element types that NVIDIA's libraries share, as far as kernels/cuda names them (../software_device.h).
#pragma once

typedef enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType;
