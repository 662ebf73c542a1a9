#include "actor/actor_thread.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "actor/transport/program_ids.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

// How long an idle thread spins before it sleeps, if a core is free: about the time of a wake-up (7 to 23 us). So two
// threads that talk to each other stay awake, and a wait costs at most twice the best choice.
constexpr int64_t kLookNs = 20'000;

// Highest priority first, then lowest id.
uint64_t Order(int32_t priority, int32_t id) {
  const int64_t falling = int64_t{INT32_MAX} - priority;
  return static_cast<uint64_t>(falling) << 32 | static_cast<uint32_t>(id);
}

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Only this thread writes its counters, so an addition need not be one operation.
void AddTo(std::atomic<int64_t>& counter, int64_t more) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

// Tells the processor that this is a spin loop.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ActorThread::ActorThread(const Context& context)
    : c_(context), own_bell_(0), mailbox_(c_.inbox == nullptr ? own_bell_ : c_.inbox->bell()) {
  std::vector<int> lane_of(kNumQueues, -1);
  for (const Lane& lane : c_.lanes) {
    lane_of[lane.queue] = static_cast<int>(&lane - c_.lanes.data());
    launched_.push_back(-1);
    passed_.emplace_back();
    own_cores_ = std::max(own_cores_, lane.device.threads());
    if (lane.device.stream() != nullptr) followers_.push_back(std::make_unique<StreamFollower>(lane.device));
  }
  for (int p = 0; p < c_.plans.plans_size(); ++p) {
    const pb::Plan& plan = c_.plans.plans(p);
    std::vector<int32_t>& local = local_.emplace_back();
    std::vector<Entry>& entries = entries_.emplace_back();
    for (int a = 0; a < plan.actors_size(); ++a) {
      const pb::Actor& actor = plan.actors(a);
      const int lane = actor.rank() == c_.rank ? lane_of[actor.queue()] : -1;
      local.push_back(lane >= 0 ? static_cast<int32_t>(entries.size()) : ~AddressOf(actor.rank(), actor.queue()));
      if (lane < 0) continue;
      entries.push_back({Actor(MakeActorSpec(plan, p, a)), static_cast<size_t>(lane), Order(actor.priority(), a)});
    }
    for (Entry& entry : entries) entry.links = LinksOf(p, entry.actor);
    std::vector<std::vector<int32_t>>& orders = orders_.emplace_back(c_.lanes.size());
    for (const pb::QueueOrder& order : plan.orders()) {
      if (order.rank() != c_.rank || lane_of[order.queue()] < 0) continue;
      orders[lane_of[order.queue()]].assign(order.actors().begin(), order.actors().end());
      for (const int32_t id : order.actors()) entries[local[id]].ordered = true;
    }
  }
}

// In the order of Actor::Act().
std::vector<ActorThread::Link> ActorThread::LinksOf(int plan, const Actor& actor) const {
  std::vector<Link> links;
  const auto add = [&](const PortSpec& port, bool filled) {
    for (const int32_t peer : port.peers) {
      Link& link = links.emplace_back(Link{.entry = local_[plan][peer]});
      if (link.entry < 0) continue;
      const Actor& other = entries_[plan][link.entry].actor;
      link.port = filled ? other.InputOf(port.register_id) : other.OutputOf(port.register_id);
    }
  };
  for (const PortSpec& output : actor.spec().outputs) add(output, /*filled=*/true);
  for (const PortSpec& input : actor.spec().inputs) add(input, /*filled=*/false);
  return links;
}

ActorThread::~ActorThread() { Join(); }

void ActorThread::Join() {
  Stop();
  if (thread_.joinable()) {
    mailbox_.Push({.kind = Mail::Kind::kQuit});
    thread_.join();
  }
  followers_.clear();
}

void ActorThread::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void ActorThread::Post(absl::Span<const Message> messages) {
  const int64_t came_ns = c_.trace == nullptr ? 0 : TraceRing::Now();
  Mail mail[8];  // at once
  for (size_t i = 0; i < messages.size();) {
    size_t count = 0;
    for (; count < std::size(mail) && i < messages.size(); ++count, ++i) {
      mail[count] = {.kind = Mail::Kind::kMessage, .message = messages[i], .came_ns = came_ns};
    }
    mailbox_.Push(mail, count);
  }
}

void ActorThread::Grant(int plan, int64_t first_step, int64_t steps) {
  Mail mail{.kind = Mail::Kind::kGrant, .first_step = first_step, .steps = steps};
  mail.message.plan = static_cast<uint16_t>(plan);
  mailbox_.Push(mail);
}

void ActorThread::Loop() {
  if (c_.cores != nullptr) c_.cores->Take(own_cores_);
  for (const Lane& lane : c_.lanes) {
    if (const char* error = lane.device.BindThread()) {
      Fail(absl::InternalError(absl::StrCat("rank ", c_.rank, " (", c_.plans.ranks(c_.rank).device(), "): ", error)));
    }
  }
  if (c_.begin) {
    if (const absl::Status status = c_.begin(); !status.ok()) Fail(status);
    c_.listener.OnThreadDone(c_.rank);
  }
  while (!quit_) {
    if (Turn() || quit_) continue;
    const int64_t begin = NowNs();
    Await();
    if (plan_ >= 0) AddTo(idle_ns_, NowNs() - begin);
  }
  if (c_.cores != nullptr) c_.cores->GiveBack(own_cores_);
}

void ActorThread::Await() {
  Doorbell::Word& bell = c_.inbox == nullptr ? own_bell_ : c_.inbox->bell();
  const auto sleep = [&] { Doorbell::Sleep(bell, [this] { return HasMail(); }); };
  if (c_.cores == nullptr) return sleep();
  c_.cores->GiveBack(own_cores_);
  if (c_.cores->TryTakeOne()) {
    const int64_t end = NowNs() + kLookNs;
    while (!HasMail() && !c_.cores->exceeded() && NowNs() < end) Pause();
    c_.cores->GiveBack(1);
  }
  sleep();
  c_.cores->Take(own_cores_);
}

void ActorThread::TakeFromPeers() {
  const absl::Status status =
      c_.inbox->TakeAll([this](const Message& message, int64_t sent_ns) { Deliver(message, sent_ns); });
  if (!status.ok()) Fail(status);
}

bool ActorThread::Turn() {
  bool moved = false;
  if (mailbox_.HasMail()) {
    mailbox_.TakeAll(mail_);
    for (const Mail& mail : mail_) Handle(mail);
    moved = true;
  }
  if (c_.inbox != nullptr && c_.inbox->HasMail()) {
    TakeFromPeers();
    moved = true;
  }
  DrainLocal();
  if (quit_ || stopped_.load(std::memory_order_relaxed)) return moved && !quit_;
  if (!ready_.empty()) {
    Act();
    moved = true;
  }
  ReportDone();
  return moved;
}

void ActorThread::Handle(const Mail& mail) {
  switch (mail.kind) {
    case Mail::Kind::kMessage:
      return Deliver(mail.message, mail.came_ns);
    case Mail::Kind::kGrant:
      return StartRun(mail.message.plan, mail.first_step, mail.steps);
    case Mail::Kind::kReport: {
      std::lock_guard<std::mutex> lock(report_mu_);
      report_ = Describe();
      ++answered_;
      report_ready_.notify_all();
      return;
    }
    case Mail::Kind::kDeviceIsThere:
      return;  // to see whether the run is over
    case Mail::Kind::kQuit:
      quit_ = true;
  }
}

void ActorThread::StartRun(int plan, int64_t first_step, int64_t steps) {
  plan_ = plan;
  turn_.assign(c_.lanes.size(), 0);
  if (c_.trace != nullptr) c_.trace->BeginRun(first_step);
  run_begin_ns_ = NowNs();
  unfinished_ = static_cast<int64_t>(entries_[plan].size());
  for (Entry& entry : entries_[plan]) {
    entry.actor.Grant(first_step, steps);
    entry.finished = false;
    Refresh(entry, {pb::START});
  }
}

void ActorThread::Deliver(const Message& message, int64_t came_ns) {
  if (stopped_.load(std::memory_order_relaxed)) return;
  if (message.plan >= local_.size() || message.actor < 0 ||
      message.actor >= static_cast<int32_t>(local_[message.plan].size()) || local_[message.plan][message.actor] < 0) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("a message for plan ", message.plan, " actor ", message.actor, ", which is not on this thread")));
  }
  Entry& entry = EntryOf(message.plan, message.actor);
  const bool filled = message.kind == Message::Kind::kFilled;
  const int port = filled ? entry.actor.InputOf(message.register_id) : entry.actor.OutputOf(message.register_id);
  DeliverTo(entry, message, port, came_ns);
}

void ActorThread::DeliverTo(Entry& entry, const Message& message, int port, int64_t came_ns) {
  absl::Status status = port < 0 ? entry.actor.OnMessage(message) : entry.actor.OnMessage(message, port);
  if (!status.ok()) return Fail(Annotate(status, absl::StrCat("plan '", c_.plans.plans(message.plan).name(), "'")));
  Refresh(entry, {message.kind == Message::Kind::kFilled ? pb::FILLED : pb::FREED, message.register_id, came_ns});
}

void ActorThread::DrainLocal() {
  while (queue_head_ < queue_.size()) {
    const Local local = queue_[queue_head_++];  // a copy: handling it may send
    if (stopped_.load(std::memory_order_relaxed)) continue;
    DeliverTo(entries_[local.message.plan][local.to.entry], local.message, local.to.port);
  }
  queue_.clear();
  queue_head_ = 0;
}

void ActorThread::Refresh(Entry& entry, const Readiness& why) {
  if (!entry.queued && entry.actor.ready() && IsTurn(entry)) {
    entry.queued = true;
    if (c_.trace != nullptr) entry.ready = c_.trace->Ready(why);
    ready_.push({entry.order, entry.actor.spec().id});
  }
  if (!entry.finished && entry.actor.done()) {
    entry.finished = true;
    --unfinished_;
  }
}

void ActorThread::Act() {
  const int32_t id = ready_.top().second;
  ready_.pop();
  Entry& entry = EntryOf(plan_, id);
  entry.queued = false;
  if (const char* error = OrderBehind(entry)) return FailOnDevice(plan_, id, error);
  current_.store(int64_t{plan_} << 32 | id, std::memory_order_relaxed);
  if (c_.trace != nullptr) c_.trace->BeginAct();
  absl::Status status = c_.lanes[entry.lane].runner.RunAct(entry.actor, afterwards_);
  if (c_.trace != nullptr) c_.trace->EndAct(entry.actor, entry.ready);
  current_.store(-1, std::memory_order_relaxed);
  if (!status.ok()) return Fail(std::move(status));
  AddTo(acts_, 1);
  entry.actor.Act(outbox_, outbox_links_);
  if (entry.ordered) turn_[entry.lane] = (turn_[entry.lane] + 1) % orders_[plan_][entry.lane].size();
  Refresh(entry);
  if (entry.ordered) Refresh(EntryOf(plan_, NextIn(entry.lane)), {pb::TURN});
  SendOutbox(entry);
  DrainLocal();
}

const char* ActorThread::OrderBehind(Entry& entry) {
  const char* error = nullptr;
  std::erase_if(entry.behind, [&](const Behind& x) {
    if (!entry.actor.Uses(x.register_id, x.slot)) return false;
    DeviceContext& other = c_.lanes[x.lane].device;
    if (error == nullptr) error = c_.lanes[entry.lane].device.WaitBehind(other, x.event);
    if (--passed_[x.lane][x.event] == 0) other.GiveBackEvent(x.event);
    return true;
  });
  return error;
}

const char* ActorThread::PassEvent(const Local& local, size_t lane, int* event) {
  Entry& receiver = entries_[local.message.plan][local.to.entry];
  if (receiver.lane == lane) return nullptr;
  std::vector<int>& passed = passed_[lane];
  if (*event < 0) {
    if (const char* error = c_.lanes[lane].device.RecordEvent(event)) return error;
    passed.resize(std::max<size_t>(passed.size(), *event + 1), 0);
  }
  ++passed[*event];
  receiver.behind.push_back({local.message.register_id, local.message.slot, lane, *event});
  return nullptr;
}

void ActorThread::SendOutbox(const Entry& entry) {
  const size_t lane = entry.lane;
  const int32_t acted = entry.actor.spec().id;
  Others others;
  int event = -1;
  for (size_t i = 0; i < outbox_.size(); ++i) {
    const Local local = {outbox_[i], entry.links[outbox_links_[i]]};
    if (local.to.entry < 0) {
      others.push_back({~local.to.entry, local.message});
      continue;
    }
    if (const char* error = PassEvent(local, lane, &event)) return FailOnDevice(plan_, acted, error);
    queue_.push_back(local);
  }
  outbox_.clear();
  outbox_links_.clear();
  if (followers_.empty()) {
    if (!others.empty()) c_.bus.SendAll(others);
    return;
  }
  launched_[lane] = acted;
  for (auto& [after, then] : afterwards_) Follow(lane, after, acted, std::move(then));
  afterwards_.clear();
  if (!others.empty()) SendAfterwards(lane, acted, std::move(others));
}

void ActorThread::SendAfterwards(size_t lane, int32_t acted, Others messages) {
  int event = 0;
  if (const char* error = c_.lanes[lane].device.RecordEvent(&event)) return FailOnDevice(plan_, acted, error);
  launched_[lane] = -1;
  Follow(lane, event, acted, [this, messages = std::move(messages)](const char* error) {
    if (error == nullptr) c_.bus.SendAll(messages);
  });
}

void ActorThread::Follow(size_t lane, int event, int32_t acted, Then then) {
  followed_.fetch_add(1);
  followers_[lane]->Follow(event, [this, acted, plan = plan_, then = std::move(then)](const char* error) {
    // After an abort of collectives devices continue with undefined data.
    const bool stopped = stopped_.load(std::memory_order_relaxed);
    then(stopped ? "the run has ended" : error);
    if (error != nullptr && !stopped) FailOnDevice(plan, acted, error);
    if (followed_.fetch_sub(1) == 1) mailbox_.Push({.kind = Mail::Kind::kDeviceIsThere});
  });
}

bool ActorThread::DeviceIsThere() {
  if (followers_.empty()) return true;
  for (size_t lane = 0; lane < c_.lanes.size(); ++lane) {
    if (launched_[lane] >= 0) SendAfterwards(lane, launched_[lane], {});
  }
  return followed_.load() == 0;
}

void ActorThread::ReportDone() {
  // A device that failed stops the thread before it is finished.
  if (plan_ < 0 || unfinished_ > 0 || !DeviceIsThere() || stopped_.load(std::memory_order_relaxed)) return;
  plan_ = -1;
  AddTo(run_ns_, NowNs() - run_begin_ns_);
  c_.listener.OnThreadDone(c_.rank);
}

void ActorThread::Fail(absl::Status status) {
  Stop();
  c_.listener.OnThreadFailed(c_.rank, std::move(status));
}

void ActorThread::FailOnDevice(int plan, int32_t acted, const char* error) {
  const pb::Plan& failed = c_.plans.plans(plan);
  Fail(absl::InternalError(absl::StrCat("rank ", c_.rank, " (", c_.plans.ranks(c_.rank).device(),
                                        "): the device failed in or before an act of plan '", failed.name(),
                                        "' actor '", failed.actors(acted).name(), "': ", error)));
}

double ActorThread::busy_seconds() const {
  double seconds = 0;
  for (const Lane& lane : c_.lanes) seconds += lane.runner.busy_seconds();
  return seconds;
}

pb::QueueWaits ActorThread::FromOutside() const {
  pb::QueueWaits waits;
  waits.set_rank(c_.rank);
  waits.set_device(c_.plans.ranks(c_.rank).device());
  double still = std::numeric_limits<double>::infinity();
  for (const Lane& lane : c_.lanes) {
    waits.add_queues(lane.queue);
    still = std::min(still, lane.runner.still_seconds());
  }
  waits.set_still_seconds(still);
  waits.set_places(followed_.load());
  const int64_t current = current_.load(std::memory_order_relaxed);
  if (current < 0) return waits;
  const int plan = static_cast<int>(current >> 32), actor = static_cast<int32_t>(current);
  waits.set_plan(c_.plans.plans(plan).name());
  waits.mutable_running()->set_actor(ActorId(c_.plans, plan, actor));
  waits.mutable_running()->set_name(c_.plans.plans(plan).actors(actor).name());
  for (const Lane& lane : c_.lanes) {
    const std::optional<ActRunner::Place> place = lane.runner.place();
    if (!place.has_value()) continue;
    waits.mutable_running()->set_instruction(place->instruction);
    waits.mutable_running()->set_seconds(place->seconds);
  }
  return waits;
}

pb::QueueWaits ActorThread::Describe() const {
  pb::QueueWaits waits = FromOutside();
  if (plan_ < 0) return waits;
  waits.set_plan(c_.plans.plans(plan_).name());
  waits.set_still_seconds(std::min(waits.still_seconds(), 1e-9 * static_cast<double>(NowNs() - run_begin_ns_)));
  for (const Entry& entry : entries_[plan_]) {
    if (!entry.finished) DescribeActor(entry, waits);
  }
  return waits;
}

void ActorThread::DescribeActor(const Entry& entry, pb::QueueWaits& to) const {
  const pb::Plan& plan = c_.plans.plans(plan_);
  pb::WaitingActor& actor = *to.add_actors();
  actor = entry.actor.Waits(plan);
  if (!IsTurn(entry)) {
    pb::Wait& turn = *actor.add_waits();
    turn.set_kind(pb::Wait::TURN);
    *turn.add_peers() = PeerOf(plan, NextIn(entry.lane));
  }
  NumberAsInJob(c_.plans, plan_, actor);
}

void ActorThread::AskWaits() {
  {
    std::lock_guard<std::mutex> lock(report_mu_);
    ++asked_;
  }
  mailbox_.Push({.kind = Mail::Kind::kReport});
}

pb::QueueWaits ActorThread::Waits(std::chrono::steady_clock::time_point until) {
  std::unique_lock<std::mutex> lock(report_mu_);
  // During an act waiting for an answer is useless.
  const auto answered = [this] { return answered_ == asked_; };
  while (!answered() && std::chrono::steady_clock::now() < until) {
    if (current_.load(std::memory_order_relaxed) >= 0) break;
    report_ready_.wait_for(lock, std::chrono::milliseconds(10), answered);
  }
  if (answered()) return report_;
  pb::QueueWaits waits = FromOutside();
  waits.set_no_answer(!waits.has_running());
  return waits;
}

}  // namespace oneflow
