#include "test/actor/seeded_cluster.h"

#include "absl/strings/str_cat.h"
#include "actor/diagnosis.h"
#include "oneflow_core/queues.h"

namespace oneflow::testing {
namespace {

constexpr int64_t kLongestAct = 1000, kLongestWay = 3000;  // of the clock, which has no unit

class Cluster : public ActRunner, public MessageBus, public ActorThread::Listener {
 public:
  Cluster(const pb::Program& program, int steps, uint32_t seed, Fault fault)
      : program_(program), plan_(program.plans(0)), fault_(fault), random_(seed), device_(false) {
    for (int rank = 0; rank < program.ranks_size(); ++rank) {
      threads_.push_back(std::make_unique<ActorThread>(
          ActorThread::Context{program, rank, {{kComputeQueue, device_, *this}}, *this, *this}));
      threads_.back()->Grant(0, 0, steps);
      agenda_.Add(Draw(kLongestAct), {.rank = rank});
    }
    due_.assign(threads_.size() * threads_.size(), 0);
    // Runs have some hundred frames and turns; in short ones nothing may come to pass.
    strikes_at_ = Draw(100);
    victim_ = static_cast<int>(Draw(program.ranks_size() - 1));
  }

  ClusterEnd Run() {
    while (!agenda_.empty() && end_.error.ok()) {
      now_ = agenda_.next_ns();
      Happen(agenda_.Take());
    }
    end_.all_done = num_done_ == static_cast<int>(threads_.size());
    if (!end_.all_done && end_.error.ok()) end_.diagnosis = Diagnose(Waits()).cause;
    return std::move(end_);
  }

 private:
  // A frame that comes, or a turn of a rank.
  struct Event {
    int rank = 0;
    bool is_frame = false;
    Message message = {};
    uint64_t filled = 0;  // what the slot has
  };

  int64_t Draw(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }
  bool IsDead(int rank) const { return is_dead_ && rank == victim_; }

  void Happen(const Event& event) {
    if (fault_ == Fault::kDead && !is_dead_ && turns_ == strikes_at_) {
      is_dead_ = true;
      end_.struck = absl::StrCat("process ", victim_);
    }
    if (IsDead(event.rank)) return;
    if (event.is_frame) {
      if (event.message.kind == Message::Kind::kFilled) {
        landed_[{event.message.actor, event.message.register_id, event.message.slot}] = event.filled;
      }
      threads_[event.rank]->Post({&event.message, 1});
    }
    ++turns_;
    turning_ = event.rank;
    if (threads_[event.rank]->Turn()) agenda_.Add(now_ + 1 + Draw(kLongestAct), {.rank = event.rank});
  }

  absl::Status RunAct(const Actor& actor, Afterwards&) override {
    uint64_t digest = actor.step() * 1000003 + actor.micro_batch() * 10007 + actor.spec().id;
    for (size_t i = 0; i < actor.spec().inputs.size(); ++i) {
      digest = digest * 1099511628211ull + Read(actor, actor.spec().inputs[i], actor.input_slot(i));
    }
    for (size_t i = 0; i < actor.spec().outputs.size(); ++i) {
      const PortSpec& port = actor.spec().outputs[i];
      uint64_t& slot = written_[{port.register_id, actor.output_slot(i)}];
      // A slot shared by the acts of a step gathers them.
      slot = port.acts_per_slot > 1 && actor.micro_batch() > 0 ? slot * 31 + digest : digest;
    }
    end_.digests[actor.spec().name].push_back(digest);
    return absl::OkStatus();
  }
  uint64_t Read(const Actor& actor, const PortSpec& port, int32_t slot) {
    if (RankOf(port.peers[0]) == turning_) return written_[{port.register_id, slot}];
    return landed_[{actor.spec().id, port.register_id, slot}];
  }
  int RankOf(int32_t actor) const { return plan_.actors(actor).rank(); }

  void Send(int address, const Message& message) override {
    const int to = RankAt(address);
    int64_t& due = due_[turning_ * threads_.size() + to];  // in order, as on a stream
    const Event event{
        .rank = to, .is_frame = true, .message = message, .filled = written_[{message.register_id, message.slot}]};
    const bool strikes = frames_++ == strikes_at_ && fault_ != Fault::kNone && fault_ != Fault::kDead;
    if (strikes) end_.struck = absl::StrCat("register ", message.register_id);
    if (strikes && fault_ == Fault::kLost) return;
    if (strikes && fault_ == Fault::kOutOfOrder) return agenda_.Add(now_ + 1 + 3 * kLongestWay, event);
    due = std::max(due + 1, now_ + 1 + Draw(kLongestWay));
    agenda_.Add(due, event);
    if (strikes && fault_ == Fault::kTwice) agenda_.Add(due + 1 + Draw(2 * kLongestWay), event);
  }

  void OnThreadDone(int) override { ++num_done_; }
  void OnThreadFailed(int, absl::Status status) override { end_.error.Update(status); }

  std::vector<pb::ProcessWaits> Waits() {
    std::vector<pb::ProcessWaits> all(threads_.size());
    for (size_t rank = 0; rank < threads_.size(); ++rank) {
      all[rank].set_process(static_cast<int>(rank));
      all[rank].set_plan(plan_.name());
      if (IsDead(static_cast<int>(rank))) {
        all[rank].set_silent("is dead");
        continue;
      }
      threads_[rank]->AskWaits();
      threads_[rank]->Turn();
      *all[rank].add_queues() = threads_[rank]->Waits(std::chrono::steady_clock::now());
    }
    return all;
  }

  const pb::Program& program_;
  const pb::Plan& plan_;
  const Fault fault_;
  std::mt19937 random_;
  TestDevice device_;
  std::vector<std::unique_ptr<ActorThread>> threads_;  // by rank
  Agenda<Event> agenda_;
  int64_t now_ = 0;
  std::vector<int64_t> due_;  // by pair of ranks: when the last frame comes
  int turning_ = 0;           // whose turn it is
  int64_t frames_ = 0, turns_ = 0, strikes_at_ = 0;
  int victim_ = 0;
  bool is_dead_ = false;
  std::map<std::pair<int, int>, uint64_t> written_;       // by register and slot
  std::map<std::tuple<int, int, int>, uint64_t> landed_;  // by reader, register and slot
  int num_done_ = 0;
  ClusterEnd end_;
};

}  // namespace

ClusterEnd RunSeeded(const pb::Program& program, int steps, uint32_t seed, Fault fault) {
  return Cluster(program, steps, seed, fault).Run();
}

}  // namespace oneflow::testing
