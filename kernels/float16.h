// The compiler's type for f16. GCC 12 has _Float16 in C++ on x86 only.
#pragma once

namespace oneflow {

#ifdef __aarch64__
typedef __fp16 NativeFloat16;
#else
typedef _Float16 NativeFloat16;
#endif

}  // namespace oneflow
