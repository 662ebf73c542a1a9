// The targets for libFuzzer. ONEFLOW_FUZZ_TARGET names one.
//
// What code an input reaches libFuzzer wants to see in counters, one per place, as clang's code has them; g++'s code
// calls a function at each place. It counts by the address that it was called from.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "glog/logging.h"
#include "google/protobuf/stubs/logging.h"
#include "test/fuzz/target.h"
#include "test/support/names.h"

extern "C" void __sanitizer_cov_8bit_counters_init(uint8_t* begin, uint8_t* end);

namespace {

constexpr size_t kCounters = 1 << 18;
uint8_t counters[kCounters];

const FuzzTarget& Chosen() {
  static const FuzzTarget& target = *[] {
    google::protobuf::SetLogHandler(nullptr);
    const char* const name = std::getenv("ONEFLOW_FUZZ_TARGET");
    CHECK(name != nullptr) << "ONEFLOW_FUZZ_TARGET names no target";
    for (FuzzTarget& one : oneflow::testing::FuzzTargets()) {
      if (one.name == name) return new FuzzTarget(std::move(one));
    }
    LOG(FATAL) << "there is no target '" << name << "'";
  }();
  return target;
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  ++counters[(place * 0x9e3779b97f4a7c15u) >> 46];
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  __sanitizer_cov_8bit_counters_init(counters, counters + kCounters);
  Chosen();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Chosen().run({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  const FuzzTarget& target = Chosen();
  const std::string& donor = target.seeds[seed % target.seeds.size()];
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string changed = oneflow::testing::Changed(target, size == 0 ? donor : input, donor, seed, most);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
