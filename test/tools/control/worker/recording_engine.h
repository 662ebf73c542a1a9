// An engine that notes what it is asked to do. Its state is a number, which a training step adds one to.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/box.h"
#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/engine.h"

namespace oneflow::testing {

class RecordingEngine : public Engine {
 public:
  absl::Status Run(absl::string_view plan, int64_t first_step, int64_t steps) override {
    calls.push_back(absl::StrCat("run ", plan, " ", first_step, "+", steps));
    if (plan.substr(0, 5) == "train" && plan != "train/half" && plan != "train/anchor") state += steps;
    if (on_run) on_run(std::string(plan), first_step, steps);
    if (!error.ok()) return error;
    return plan == "broken" ? absl::InternalError("it broke") : absl::OkStatus();
  }
  absl::Status RunBeside(absl::string_view plan, int64_t first_step, int64_t steps) override {
    calls.push_back(absl::StrCat("beside ", plan, " ", first_step, "+", steps));
    if (on_run) on_run(std::string(plan), first_step, steps);
    return error;
  }
  absl::Status WaitBeside() override { return error; }
  void ShiftRows(absl::string_view, int64_t rows) override { row_shift = rows; }
  void Abort(absl::Status) override {}
  absl::Status LoadWeights(const std::string& path) override {
    calls.push_back("load " + path);
    return absl::OkStatus();
  }
  absl::Status SaveWeights(const std::string& path, absl::string_view suffix) override {
    calls.push_back(absl::StrCat("save ", path, " '", suffix, "'"));
    return absl::OkStatus();
  }
  absl::Status SaveTrace(const std::string& path) override {
    calls.push_back("trace " + path);
    return absl::OkStatus();
  }
  absl::StatusOr<OwnedState> Owned() override {
    OwnedState owned;
    pb::CheckpointTensor& tensor = owned.tensors.emplace_back();
    tensor.set_name("n");
    tensor.set_dtype(pb::I64);
    tensor.add_slices();
    pb::CheckpointTensor w = tensor;
    w.set_name("w");
    w.set_dtype(pb::F32);
    w.set_role(pb::WEIGHT);
    w.mutable_slices(0)->set_offset(8);
    owned.tensors.push_back(std::move(w));
    owned.num_bytes = 12;
    return owned;
  }
  absl::Status CopyState(char* to) override {
    calls.push_back(absl::StrCat("copy ", state));
    std::memcpy(to, &state, sizeof(state));
    std::memcpy(to + sizeof(state), &weight, sizeof(weight));
    return absl::OkStatus();
  }
  absl::Status ReadOwned(const std::function<void(const pb::Variable&, const char*, int64_t)>& use) override {
    if (notes_reads) calls.push_back(absl::StrCat("count ", state));
    pb::Variable variable;
    variable.set_name("w");
    variable.set_dtype(pb::F32);
    variable.set_role(pb::WEIGHT);
    use(variable, reinterpret_cast<const char*>(&weight), 1);
    return absl::OkStatus();
  }
  absl::Status LoadState(const CheckpointReader& checkpoint) override {
    OF_RETURN_IF_ERROR(checkpoint.Read(*checkpoint.Find("n"), Box{}, reinterpret_cast<char*>(&state)));
    calls.push_back(absl::StrCat("restore ", state));
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& note) override {
    if (!other) return std::vector<std::string>{note};
    return std::vector<std::string>{note, other()};
  }
  pb::ProcessWaits Waits() override { return {}; }
  EngineStats stats() const override { return {}; }

  std::vector<std::string> calls;
  std::function<void(const std::string& plan, int64_t first_step, int64_t steps)> on_run;
  int64_t state = 0, row_shift = 0;
  float weight = 1;
  bool notes_reads = false;
  absl::Status error;                  // of runs
  std::function<std::string()> other;  // what a second process says in every exchange; empty: there is none
};

}  // namespace oneflow::testing
