// What the bits of floating-point results depend on besides the program's own text. Goldens that hold such bits name
// these facts, and are compared to the bit only where all of them are the same.
#pragma once

#include <string>

namespace oneflow::e2e {

// One fact per line: processor, its vector instructions and caches, cores, oneDNN, compiler, C library.
std::string MachineFacts();

}  // namespace oneflow::e2e
