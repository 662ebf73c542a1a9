// What takes bytes from outside: files, requests, what peers say. Whatever the bytes, each gives an error or a result;
// it neither crashes nor takes more memory than its target states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace oneflow::testing {

// Of one input, whatever numbers are in it.
inline constexpr int64_t kUsualMostMemory = 256 << 20;

struct FuzzTarget {
  std::string name;
  std::vector<std::string> seeds;                      // good ones, to begin with
  std::shared_ptr<google::protobuf::Message> message;  // of that type; null: inputs are text or bytes of their own
  std::function<void(absl::string_view input)> run;    // aborts if what came of it is wrong
  int64_t most_memory = kUsualMostMemory;
};

std::vector<FuzzTarget> FuzzTargets();

// Another input, made of one; `donor` is one as well.
std::string Changed(const FuzzTarget& target, absl::string_view input, absl::string_view donor, uint64_t seed,
                    size_t most_bytes);

// By room.
void AddJobTargets(std::vector<FuzzTarget>& targets);        // configs, graphs, schedules
void AddPlanTargets(std::vector<FuzzTarget>& targets);       // plans and programs
void AddFileTargets(std::vector<FuzzTarget>& targets);       // weights, checkpoints
void AddPeerTargets(std::vector<FuzzTarget>& targets);       // frames
void AddSchedulerTargets(std::vector<FuzzTarget>& targets);  // requests and reports

}  // namespace oneflow::testing
