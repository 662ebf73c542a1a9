// A text to train on where none is given: made-up words of unequal frequency, the same every time. It can be learned
// from (its entropy is far below 8 bits per byte), unlike noise, and costs what text costs, unlike zeros.
#pragma once

#include <cstddef>
#include <string>

namespace oneflow {

std::string SampleText(size_t num_bytes);

}  // namespace oneflow
