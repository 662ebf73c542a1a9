// What laws of ragged values run: tokens of some sources, sorted by the expert that each is for, in programs of their
// own, on ranks of one process or of several, which read one another's memory or send.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "actor/engine.h"
#include "actor/transport/peer_network.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "gtest/gtest.h"
#include "kernels/device.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "proto/plan.pb.h"
#include "test/support/host_collectives.h"
#include "test/support/list_text.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/support/weight_file.h"
#include "tools/job/kernel_scratch.h"

namespace oneflow::testing {

// There is room for all of a source's tokens with every expert.
constexpr int64_t kSources = 2, kExperts = 4, kTokens = 9, kWidth = 6, kHidden = 5;

// Sees that only numbers are sent.
class WatchedCollectives : public HostCollectives {
 public:
  using HostCollectives::HostCollectives;

  const char* Launch(const CollectiveCall& call) override {
    const auto* const sent = call.in.as<const float>();
    for (const PeerTransfer& transfer : call.transfers) {
      for (int64_t i = 0; i < transfer.send_count && call.in.dtype == DType::kFloat32; ++i) {
        if (!std::isfinite(sent[transfer.send_offset + i])) return "what is sent is no number";
      }
    }
    return HostCollectives::Launch(call);
  }
};

class RaggedLaw : public ::testing::Test {
 protected:
  struct Outcome {
    std::vector<double> losses;
    std::map<std::string, std::vector<float>> weights;
    std::map<std::string, std::vector<double>> fetched;  // last
    int64_t bytes_moved = 0;
    int64_t bytes_sent = 0;  // of these, between hosts
  };

  // The expert of each token.
  static std::vector<int64_t> Ids(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> ids(kSources * kTokens);
    for (int64_t& id : ids) id = random() % 3;  // nobody asks the last
    return ids;
  }

  Tensor Counts(GraphBuilder& b) {
    return RowCounts(b.Variable("ids", {DType::kInt32, {kSources, kTokens}}, ListText(Ids(kSeed)), {}, false),
                     kExperts);
  }

  absl::StatusOr<CompileOptions> Options(std::vector<Axis> mesh) {
    CompileOptions options;
    options.job = "law";
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(mesh)));
    options.ranks_per_process = options.mesh.size();
    options.optimizer.rule = "sgd";
    options.schedule.learning_rate = 0.02;
    options.seed = 5;
    options.kernel_scratch = ScratchOfKernels(DeviceKind::kCpu, 1);
    return options;
  }

  // Steps of a plan, in as many processes as its options say; all of them are played by this one. `together`: the plan
  // for so many processes, but in one. Its devices are the host's, also where the options say that their ranks send.
  absl::StatusOr<Outcome> Run(Graph graph, const CompileOptions& options, int64_t steps, bool together = false) {
    const std::string plan_name = graph.name();
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, Compile({std::move(graph)}, options, ops_));
    const bool sends = options.device != DeviceKind::kCpu;
    if (together) {
      pb::Program program = SpelledOut(plan);
      for (pb::Rank& rank : *program.mutable_ranks()) rank.set_process(0);
      Outcome outcome;
      OF_RETURN_IF_ERROR(RunProcess(std::move(program), sends, /*peers=*/nullptr, plan_name, steps, outcome));
      return outcome;
    }
    const int processes = options.mesh.size() / options.ranks_per_process;
    std::vector<Outcome> outcomes(processes);
    std::vector<std::unique_ptr<PeerNetwork>> networks(processes);
    std::vector<std::string> addresses;
    for (int p = 0; p < processes && processes > 1; ++p) {
      OF_ASSIGN_OR_RETURN(networks[p], PeerNetwork::Create(p, processes, /*attempt=*/1));
      addresses.push_back(networks[p]->address());
    }
    const std::string hash = PlanHash(plan.SerializeAsString());
    std::vector<absl::Status> statuses(processes);
    std::vector<std::thread> threads;
    for (int p = 0; p < processes; ++p) {
      threads.emplace_back([&, p] {
        statuses[p] = [&]() -> absl::Status {
          if (processes > 1) OF_RETURN_IF_ERROR(networks[p]->Connect(addresses, absl::Seconds(20)));
          OF_ASSIGN_OR_RETURN(pb::Program program, ProgramOf(plan, p, hash));
          return RunProcess(std::move(program), sends, networks[p].get(), plan_name, steps, outcomes[p]);
        }();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) OF_RETURN_IF_ERROR(status);
    Outcome all = outcomes[0];  // whose rank 0 tells of losses
    for (int p = 1; p < processes; ++p) {
      all.bytes_moved += outcomes[p].bytes_moved;
      all.bytes_sent += outcomes[p].bytes_sent;
    }
    return all;
  }

  static void ExpectSame(const Outcome& got, const Outcome& want, double tolerance = 1e-5) {
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t i = 0; i < want.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i] / want.losses[i], 1, tolerance) << "step " << i;
    for (const auto& [name, weights] : want.weights) {
      const std::vector<float>& its = got.weights.at(name);
      for (size_t i = 0; i < weights.size(); ++i) {
        ASSERT_NEAR(its[i], weights[i], tolerance * (1 + std::abs(weights[i]))) << name << " " << i;
      }
    }
  }

  static constexpr uint32_t kSeed = 21;
  bool only_numbers_ = false;  // may be sent
  const OpRegistry ops_ = StandardOps();
  const TestDir dir_;

 private:
  absl::Status RunProcess(pb::Program program, bool sends, PeerNetwork* peers, const std::string& plan_name,
                          int64_t steps, Outcome& outcome) {
    std::mutex mutex;
    std::unique_ptr<Collectives> collectives;
    EngineOptions options;
    if (sends) {
      collectives = only_numbers_ ? std::unique_ptr<Collectives>(new WatchedCollectives(program))
                                  : std::unique_ptr<Collectives>(new HostCollectives(program));
      options.collectives = collectives.get();
      options.open_device = [](const Device&, int cores) { return MakeCpuDevice(cores); };
    }
    options.process = program.process();
    options.peers = peers;
    options.on_fetch = [&](const Fetched& fetched) {
      const std::lock_guard lock(mutex);
      if (fetched.name == "loss") outcome.losses.push_back(fetched.values[0]);
      outcome.fetched[fetched.name] = fetched.values;
    };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(program), std::move(options)));
    OF_RETURN_IF_ERROR(engine->Run(plan_name, 0, steps));
    outcome.bytes_moved = engine->stats().bytes_moved;
    outcome.bytes_sent = engine->stats().bytes_sent;
    EXPECT_EQ(engine->stats().scratch_bytes, 0) << "nothing asks for more than the plan has";
    OF_RETURN_IF_ERROR(engine->SaveWeights(dir_.File("weights"), ""));
    if (peers != nullptr && peers->process() > 0) return absl::OkStatus();
    OF_ASSIGN_OR_RETURN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("weights")));
    for (const auto& [name, entry] : file.tensors) {
      const auto* const values = entry.as<float>();
      outcome.weights[name].assign(values, values + entry.type.shape.count());
    }
    return absl::OkStatus();
  }
};

}  // namespace oneflow::testing
