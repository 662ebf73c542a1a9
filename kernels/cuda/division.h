// Division by a number that is known at the launch of a kernel: a multiplication and a shift. GPUs have no instruction
// for a division; it takes 20 instructions for 32 bits and 100 for 64. (Granlund and Montgomery, "Division by invariant
// integers using multiplication", PLDI 1994, figure 4.1.)
//
// Let d be the divisor, 2^(s-1) < d <= 2^s, and M the least integer above 2^(N+s) / d, in arithmetic of N bits. Then
//
//   M d = 2^(N+s) + e, 0 < e <= 2^s,     so that     n M / 2^(N+s) = n/d + (n/d) e / 2^(N+s),
//
// where the last term is less than 1/d for every n < 2^N: too little to reach the next integer, so rounding down gives
// the quotient. M has N + 1 bits, of which the uppermost is 1: `factor` holds the others, and n is added for it, a sum
// that needs n < 2^(N-1).
//
// This header contains no CUDA: the host divides in the same way.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/host_device.h"

namespace oneflow::cuda {

// Index: uint32_t or uint64_t. Divides numbers below half of its range.
template <typename Index>
class Divisor {
 public:
  struct Quotient {
    Index quotient, remainder;
  };

  Divisor() = default;  // by 1
  // REQUIRES: 0 < divisor < half of the range. Other divisors, as of empty tensors, may be set but not used.
  explicit Divisor(int64_t divisor) : value_(std::max<Index>(1, static_cast<Index>(divisor))) {
    shift_ = std::bit_width(static_cast<Index>(value_ - 1));
    factor_ = static_cast<Index>(((((Wide{1} << shift_) - value_) << kBits) / value_) + 1);
  }

  OF_HOST_DEVICE Quotient Divide(Index n) const {
    const Index quotient = (static_cast<Index>((Wide{n} * factor_) >> kBits) + n) >> shift_;
    return {quotient, n - quotient * value_};
  }

 private:
  using Wide = std::conditional_t<sizeof(Index) == 4, uint64_t, unsigned __int128>;
  static constexpr int kBits = 8 * sizeof(Index);
  Index value_ = 1, factor_ = 1;
  int shift_ = 0;
};

// f(Index{}), with 32 bits if indices below `count` fit: on a GPU, 64-bit arithmetic costs several times as much.
template <typename F>
auto WithIndex(int64_t count, F f) {
  return count <= INT32_MAX ? f(uint32_t{}) : f(uint64_t{});
}

}  // namespace oneflow::cuda
