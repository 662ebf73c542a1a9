// f16 under the name that compilers have for it: GCC 12 knows _Float16 in C++ on x86 alone.
#pragma once

namespace oneflow {

#ifdef __aarch64__
typedef __fp16 NativeFloat16;
#else
typedef _Float16 NativeFloat16;
#endif

}  // namespace oneflow
