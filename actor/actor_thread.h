// A thread that serves one queue of a rank, or several: takes mail, advances its actors, runs the acts that are ready.
//
// inbox, mailbox ──┐                        ┌──► bus (other threads)
//                  ▼                        │
//   local queue ──► actors ──► ready ──► act ──► local queue (its own actors)
//                             by priority,
//                             then by id
//
// Where the plan orders acts of a queue, they begin in that order, even if others are ready.
//
// Messages between actors of one thread never touch the mailbox. They take no lock, no allocation and no search,
// because the other end of every register is looked up at load.
//
// On a device with a stream an act is only launched, and messages to actors of the same thread go out at once. On the
// same queue, later launches are ordered behind it anyway. On another queue, the act that takes the slot is launched
// behind an event: the device waits, no thread does. Messages to other threads go out when the device has reached the
// end of the act; another thread waits for that (stream_follower.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "actor/act_runner.h"
#include "actor/actor.h"
#include "actor/core_budget.h"
#include "actor/mailbox.h"
#include "actor/stream_follower.h"
#include "actor/trace/trace_ring.h"
#include "actor/transport/inbox.h"
#include "actor/transport/message_bus.h"
#include "kernels/device.h"

namespace oneflow {

class ActorThread : public MessageSink {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // Either: it has begun (Context::begin). Or: all its actors of the granted plan are done, and its device, and their
    // messages are on the bus. Called on the actor thread.
    virtual void OnThreadDone(int rank) = 0;
    // An act or the device failed, or a message made no sense; the thread has stopped acting. Called on the actor
    // thread, or on the one that follows its device.
    virtual void OnThreadFailed(int rank, absl::Status status) = 0;
  };

  struct Lane {
    int queue;
    DeviceContext& device;
    ActRunner& runner;
  };
  struct Context {
    const pb::Program& plans;
    int rank = 0;
    std::vector<Lane> lanes;  // the queues that it serves; several only on a device with streams
    MessageBus& bus;
    Listener& listener;
    CoreBudget* cores = nullptr;  // lets it look for mail while a core is free; null: it sleeps at once
    TraceRing* trace = nullptr;   // records every act; null: none is recorded
    Inbox* inbox = nullptr;       // messages of other processes in shared memory; null: none
    // The first work of the thread, once its devices are bound; OnThreadDone(), or its error, reports the end. Empty:
    // none, and no report.
    std::function<absl::Status()> begin = {};
  };

  // Everything in `context` is borrowed. REQUIRES: the plans passed CheckProgram.
  explicit ActorThread(const Context& context);
  ~ActorThread() override;  // joins

  void Start();
  // Stops, and waits for the running act and for the work that its device has been given. Later messages are dropped.
  void Join();

  // Any thread. Messages of a plan that is not granted yet are kept: a peer may be ahead of us.
  void Post(absl::Span<const Message> messages) override;
  // Lets the actors of a plan run these steps. REQUIRES: the last grant is done.
  void Grant(int plan, int64_t first_step, int64_t steps);
  // No further act begins. Any thread, also before Start().
  void Stop() { stopped_.store(true, std::memory_order_relaxed); }

  // One turn of the loop, for the thread or for a test in its place: takes in all mail, begins at most one act. False
  // if there was nothing to do, or it was told to quit.
  bool Turn();

  // Asks it for the waits of its actors. Any other thread; returns at once.
  void AskWaits();
  // Its answer; or, if it does not answer in time, as during an act, what is visible from outside. One thread at a
  // time, each after its own call to AskWaits().
  pb::QueueWaits Waits(std::chrono::steady_clock::time_point until);

  // Any thread.
  int64_t acts() const { return acts_.load(std::memory_order_relaxed); }
  // Inside acts, the running one included.
  double busy_seconds() const;
  // From the grants of runs to their ends here; of that, asleep for want of messages.
  double run_seconds() const { return run_ns_.load(std::memory_order_relaxed) * 1e-9; }
  double idle_seconds() const { return idle_ns_.load(std::memory_order_relaxed) * 1e-9; }

 private:
  struct Mail {
    enum class Kind : uint8_t { kMessage, kGrant, kReport, kDeviceIsThere, kQuit };
    Kind kind = Kind::kMessage;
    Message message;      // kGrant: only the plan
    int64_t came_ns = 0;  // if acts are recorded
    int64_t first_step = 0;
    int64_t steps = 0;
  };
  // An event of another lane behind which the act that takes a slot is launched.
  struct Behind {
    int32_t register_id, slot;
    size_t lane;
    int event;
  };
  // The target of messages along one link of an actor (Actor::Act).
  struct Link {
    int32_t entry = -1;  // of an actor of this thread, in entries_ of its plan; of another's ~address
    int32_t port = -1;   // of that entry's actor
  };
  // A message of this thread to itself.
  struct Local {
    Message message;
    Link to;
  };
  struct Entry {
    Actor actor;
    size_t lane;
    uint64_t order;        // among ready actors the lowest acts first
    bool queued = false;   // in ready_
    bool finished = true;  // done with what was granted
    bool ordered = false;  // acts when it is its turn
    Readiness ready = {};  // its last wait, if acts are recorded
    std::vector<Behind> behind = {};
    std::vector<Link> links = {};
  };
  using Others = std::vector<std::pair<int, Message>>;  // with the addresses that they go to

  std::vector<Link> LinksOf(int plan, const Actor& actor) const;
  void Loop();
  // Returns when there is mail.
  void Await();
  bool HasMail() const { return mailbox_.HasMail() || (c_.inbox != nullptr && c_.inbox->HasMail()); }
  void TakeFromPeers();
  void Handle(const Mail& mail);
  void StartRun(int plan, int64_t first_step, int64_t steps);
  void Deliver(const Message& message, int64_t came_ns);
  void DeliverTo(Entry& entry, const Message& message, int port, int64_t came_ns = 0);
  void DrainLocal();
  // Queues it if it became ready, for this reason; counts it if it became done.
  void Refresh(Entry& entry, const Readiness& why = {});
  // The actor whose act is next in the order of a lane.
  int32_t NextIn(size_t lane) const { return orders_[plan_][lane][turn_[lane]]; }
  // Whether nothing in the order of its queue comes before the entry's next act.
  bool IsTurn(const Entry& entry) const { return !entry.ordered || NextIn(entry.lane) == entry.actor.spec().id; }
  void Act();
  // Launches of the entry's next act wait for events of other lanes.
  const char* OrderBehind(Entry& entry);
  Entry& EntryOf(int plan, int32_t actor) { return entries_[plan][local_[plan][actor]]; }
  void SendOutbox(const Entry& entry);
  // The receiver may take the slot of the message behind this act, which is on another lane. `*event` is the event of
  // that; made if it is -1.
  const char* PassEvent(const Local& local, size_t lane, int* event);
  // Sends them when the lane has come to this point; `acted` is the actor whose act was given to it last.
  void SendAfterwards(size_t lane, int32_t acted, Others messages);
  // Calls `then` when the lane has come to the event, unless the device has failed: then that is reported.
  void Follow(size_t lane, int event, int32_t acted, Then then);
  // Whether the device has finished all its work. If not, mail comes when it has.
  bool DeviceIsThere();
  void ReportDone();
  void Fail(absl::Status status);
  void FailOnDevice(int plan, int32_t acted, const char* error);
  pb::QueueWaits Describe() const;
  void DescribeActor(const Entry& entry, pb::QueueWaits& to) const;
  // The state that any thread may see.
  pb::QueueWaits FromOutside() const;

  const Context c_;
  int own_cores_ = 1;  // for its kernels
  std::vector<std::vector<int32_t>>
      local_;  // by plan, by actor: index into entries_[plan], or ~address of another thread's actor
  std::vector<std::vector<Entry>> entries_;  // by plan
  // By plan, by lane: actors, once per act of a step, in the order of the plan.
  std::vector<std::vector<std::vector<int32_t>>> orders_;
  std::vector<size_t> turn_;  // by lane: in its order; a run is whole steps, so it ends where it began
  std::priority_queue<std::pair<uint64_t, int32_t>, std::vector<std::pair<uint64_t, int32_t>>, std::greater<>> ready_;
  int plan_ = -1;           // being run
  int64_t unfinished_ = 0;  // actors of that plan

  OutgoingMessages outbox_;
  std::vector<int32_t> outbox_links_;  // as outbox_
  std::vector<Local> queue_;           // not yet delivered from queue_head_ on
  size_t queue_head_ = 0;
  Afterwards afterwards_;                 // of the act that runs
  std::vector<int32_t> launched_;         // by lane: the actor that acted last, while its end is not known
  std::vector<std::vector<int>> passed_;  // by lane, by event: how many acts are to be launched behind it
  std::vector<Mail> mail_;                // being handled

  Doorbell::Word own_bell_;  // where it sleeps if it has no inbox
  Mailbox<Mail> mailbox_;
  std::atomic<bool> stopped_{false};
  bool quit_ = false;
  std::atomic<int64_t> acts_{0};
  std::atomic<int64_t> run_ns_{0};
  std::atomic<int64_t> idle_ns_{0};
  int64_t run_begin_ns_ = 0;
  std::atomic<int64_t> current_{-1};  // plan << 32 | actor while an act runs

  std::mutex report_mu_;
  std::condition_variable report_ready_;
  int64_t asked_ = 0;      // guarded by report_mu_
  int64_t answered_ = 0;   // guarded by report_mu_
  pb::QueueWaits report_;  // guarded by report_mu_

  std::atomic<int> followed_{0};  // places that the device has still to come to
  std::thread thread_;
  std::vector<std::unique_ptr<StreamFollower>> followers_;  // by lane, for devices with streams
};

}  // namespace oneflow
