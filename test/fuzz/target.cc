#include "test/fuzz/target.h"

#include "google/protobuf/arena.h"
#include "test/fuzz/mutator.h"

namespace oneflow::testing {

std::vector<FuzzTarget> FuzzTargets() {
  std::vector<FuzzTarget> targets;
  AddJobTargets(targets);
  AddPlanTargets(targets);
  AddFileTargets(targets);
  AddPeerTargets(targets);
  AddSchedulerTargets(targets);
  return targets;
}

std::string Changed(const FuzzTarget& target, absl::string_view input, absl::string_view donor, uint64_t seed,
                    size_t most_bytes) {
  Mutator mutator(seed);
  std::string bytes(input);
  // Now and then what does not parse, for the parser's sake.
  const bool as_message = target.message != nullptr && seed % 16 != 0;
  if (as_message) {
    google::protobuf::Arena arena;
    google::protobuf::Message* const message = target.message->New(&arena);
    if (message->ParsePartialFromString(bytes)) {
      mutator.EditMessage(*message, [&]() -> const google::protobuf::Message& {
        google::protobuf::Message* const other = target.message->New(&arena);
        other->ParsePartialFromString(std::string(donor));  // of what does not parse there are the first fields
        return *other;
      });
      std::string changed = message->SerializePartialAsString();
      if (changed.size() <= most_bytes) return changed;
    }
  }
  mutator.EditBytes(bytes, most_bytes);
  return bytes;
}

}  // namespace oneflow::testing
