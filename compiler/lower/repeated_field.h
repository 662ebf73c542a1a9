// Lists as repeated fields of messages.
#pragma once

namespace oneflow {

// Appends the numbers of a list.
template <typename From, typename To>
void CopyInts(const From& from, To* to) {
  to->Add(from.begin(), from.end());
}

}  // namespace oneflow
