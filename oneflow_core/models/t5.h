// Parts of t5.cc for programs in C++.
#pragma once

#include <cstdint>

namespace oneflow {

// How T5 groups distances from a query to a key, key - query, for its bias: in one of `buckets` groups, the near ones
// in one each, those beyond in groups that grow up to `most_distance`, behind which all are in the last. Half of the
// groups are for keys ahead unless `causal`. REQUIRES: buckets >= 4, most_distance >= buckets.
int64_t T5Bucket(int64_t distance, bool causal, int64_t buckets, int64_t most_distance);

}  // namespace oneflow
