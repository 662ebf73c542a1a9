#include "actor/engine.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "actor/end_limit.h"
#include "actor/engine/loaded_job.h"
#include "actor/engine/loading.h"
#include "actor/engine/running.h"
#include "actor/engine/telling.h"
#include "actor/transport/peer_network.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

class EngineImpl final : public Engine {
 public:
  EngineImpl(pb::Program program, EngineOptions options)
      : options_(std::move(options)),
        job_(std::make_unique<LoadedJob>(std::move(program), options_)),
        telling_(options_, *job_),
        running_(options_, *job_, telling_) {}

  ~EngineImpl() override {
    if (const absl::Status status = running_.failure(); !status.ok()) LimitEnd(status);
    if (options_.peers != nullptr) options_.peers->SetListener(nullptr);
    job_ = nullptr;  // its threads tell `running_` until they have ended
  }

  // The second step of Create(). After an error the object can only be destroyed.
  absl::Status Load() {
    const absl::Status status = LoadJob(options_, running_, *job_);
    // Otherwise the peers would wait for us, and our devices for them.
    if (!status.ok()) running_.Fail(status, /*tell_peers=*/true);
    return status;
  }

  absl::Status Run(absl::string_view plan, int64_t first_step, int64_t steps) override {
    return running_.Run(plan, first_step, steps);
  }
  absl::Status RunBeside(absl::string_view plan, int64_t first_step, int64_t steps) override {
    return running_.RunBeside(plan, first_step, steps);
  }
  absl::Status WaitBeside() override { return running_.WaitBeside(); }
  void ShiftRows(absl::string_view plan, int64_t rows) override {
    const auto shift = job_->row_shifts.find(std::string(plan));
    if (shift != job_->row_shifts.end()) shift->second.store(rows, std::memory_order_relaxed);  // a grant publishes it
  }
  void Abort(absl::Status status) override {
    running_.Fail(status.ok() ? absl::CancelledError("aborted") : status, /*tell_peers=*/true);
  }

  absl::Status LoadWeights(const std::string& path) override {
    return running_.Together("loads weights", [&]() -> absl::Status {
      OF_RETURN_IF_ERROR(job_->variables->Load(path));
      job_->others->Forget();
      return running_.Barrier();  // a peer must not read our variables before
    });
  }
  absl::Status SaveWeights(const std::string& path, absl::string_view suffix) override {
    return running_.Together("saves weights", [&] {
      return job_->variables->Save(path, suffix, options_.process, [this] { return running_.Barrier(); });
    });
  }

  absl::StatusOr<OwnedState> Owned() override { return job_->variables->Owned(); }
  absl::Status CopyState(char* to) override {
    OF_RETURN_IF_ERROR(running_.failure());  // after a failed run variables are of two steps
    return job_->variables->CopyState(to);
  }
  absl::Status ReadOwned(const std::function<void(const pb::Variable&, const char*, int64_t)>& use) override {
    OF_RETURN_IF_ERROR(running_.failure());
    return job_->variables->ReadOwned(use);
  }
  absl::Status LoadState(const CheckpointReader& checkpoint) override {
    const Telling::Doing doing(telling_, "loads a checkpoint");
    OF_RETURN_IF_ERROR(running_.failure());
    job_->others->Forget();
    return job_->OnEveryRank([&](int rank) { return job_->variables->LoadState(checkpoint, rank); });
  }

  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& note) override {
    const Telling::Doing doing(telling_, "waits for the notes of all processes");
    OF_RETURN_IF_ERROR(running_.failure());
    if (options_.peers == nullptr) return std::vector<std::string>{note};
    return options_.peers->ExchangeNotes(note);
  }
  absl::Status SaveTrace(const std::string& path) override {
    return running_.Together("saves the trace",
                             [&] { return telling_.SaveTrace(path, [this] { return running_.Barrier(); }); });
  }

  pb::ProcessWaits Waits() override { return telling_.Waits(); }
  EngineStats stats() const override {
    EngineStats stats = telling_.Stats();
    stats.wall_seconds = running_.wall_seconds();
    return stats;
  }

 private:
  // Starts the limit for the end of the engine.
  void LimitEnd(const absl::Status& status) {
    end_limit_.Start(std::chrono::milliseconds(static_cast<int64_t>(1000 * options_.end_seconds)), [this, status] {
      LOG(ERROR) << "process " << options_.process << ": its devices have not come to an end within "
                 << options_.end_seconds << " s of an error, so the process ends";
      if (options_.on_stuck) return options_.on_stuck(status);
      std::cerr << "error: " << status.message() << std::endl;
      std::_Exit(1);
    });
  }

  const EngineOptions options_;
  EndLimit end_limit_;  // before all members that wait for devices
  std::unique_ptr<LoadedJob> job_;
  Telling telling_;
  Running running_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(pb::Program plan, EngineOptions options) {
  auto engine = std::make_unique<EngineImpl>(std::move(plan), std::move(options));
  OF_RETURN_IF_ERROR(engine->Load());
  return engine;
}

}  // namespace oneflow
