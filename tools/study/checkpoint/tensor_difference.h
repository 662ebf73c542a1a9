// How the elements of two tensors differ, for people.
#pragma once

#include <string>

#include "actor/checkpoint/stored_type.h"

namespace oneflow {

// "5 of 6 elements differ, by 0.5 at most"; of elements that are no single numbers (F8 and narrower, complex ones) it
// says that their bytes differ. Numbers of two types are compared as such. Empty: there is no difference, to the bit if
// both are of one type. REQUIRES: one shape, and all bytes of both.
std::string TensorDifference(const StoredType& a, const char* a_bytes, const StoredType& b, const char* b_bytes);

}  // namespace oneflow
