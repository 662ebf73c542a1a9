// The order of samples: pure functions of a seed and a position, so that the order needs no state and is the same under
// every layout and after every restart.
#pragma once

#include <cstdint>

namespace oneflow {

// The `position`-th element of a pseudo-random permutation of [0, n) chosen by `key`: a balanced Feistel network of
// four rounds on the smallest even number of bits that holds n, walked along its cycle until it falls below n (Black
// and Rogaway, "Ciphers with arbitrary finite domains", 2002). REQUIRES: 0 <= position < n.
uint64_t PermutedIndex(uint64_t key, uint64_t n, uint64_t position);

// A pseudo-random number in [0, n) for the `position`-th draw. REQUIRES: n > 0.
uint64_t RandomIndex(uint64_t key, uint64_t n, uint64_t position);

}  // namespace oneflow
