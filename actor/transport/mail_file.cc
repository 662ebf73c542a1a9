#include "actor/transport/mail_file.h"

#include <sys/random.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/transport/message_bus.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kTokenBytes = 16;

constexpr int64_t kTakenOffset = kTokenBytes;  // in the token's line

int64_t BellOffset(int thread) { return kLine * (1 + thread); }

// The room for messages, by sending process and receiving address.
using Traffic = std::map<std::pair<int, int>, int64_t>;

// A register between another process of the host and this one takes as many messages each way as it has slots.
Traffic TrafficTo(int process, const pb::Program& program) {
  Traffic traffic;
  for (const pb::Plan& plan : program.plans()) {
    const auto process_of = [&](int actor) { return program.ranks(plan.actors(actor).rank()).process(); };
    const auto host_of = [&](int actor) { return program.ranks(plan.actors(actor).rank()).host(); };
    const auto add = [&](int from, int to, int slots) {
      if (host_of(from) != host_of(to)) return;
      if (process_of(to) != process || process_of(from) == process) return;
      traffic[{process_of(from), AddressOf(plan.actors(to).rank(), plan.actors(to).queue())}] += slots;
    };
    for (const pb::Register& reg : plan.registers()) {
      for (const int consumer : reg.consumers()) {
        add(reg.producer(), consumer, reg.slots());
        add(consumer, reg.producer(), reg.slots());
      }
    }
  }
  return traffic;
}

template <typename T>
T& At(const SharedMemory& memory, int64_t offset) {
  return *reinterpret_cast<T*>(memory.data() + offset);
}

// Whether `num_bytes` at `offset` lie in a file of `size` behind the token.
bool IsInside(int64_t offset, int64_t num_bytes, int64_t size) {
  return offset >= kLine && offset % kLine == 0 && num_bytes <= size && offset <= size - num_bytes;
}

absl::Status CheckRing(const pb::MailRing& ring, int64_t size) {
  const bool inside = IsInside(ring.offset(), RingMemory::NumBytes(ring.capacity()), size) &&
                      IsInside(ring.bell(), sizeof(Doorbell::Word), size);
  if (inside && ring.capacity() > 0 && ring.rank() >= 0 && ring.rank() < INT32_MAX / kNumQueues &&
      IsQueue(ring.queue()))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a ring of ", ring.capacity(), " messages to queue ", ring.queue(),
                                                 " of rank ", ring.rank(), " at ", ring.offset(), ", its bell at ",
                                                 ring.bell(), ", in a file of ", size, " bytes"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MailFile>> MailFile::Create(const pb::Program& program, int process, int num_threads,
                                                           const std::vector<int>& thread_of) {
  pb::PeerMail announcement;
  std::vector<Ring> rings;
  int64_t size = BellOffset(num_threads);
  for (const auto& [ends, messages] : TrafficTo(process, program)) {
    const auto [from, address] = ends;
    const int thread = thread_of[address];
    if (thread < 0 || messages > UINT32_MAX) continue;
    rings.push_back({from, thread, size, static_cast<uint32_t>(messages)});
    pb::MailRing& ring = *announcement.add_rings();
    ring.set_process(from);
    ring.set_rank(RankAt(address));
    ring.set_queue(QueueAt(address));
    ring.set_offset(size);
    ring.set_capacity(static_cast<uint32_t>(messages));
    ring.set_bell(BellOffset(thread));
    size += (RingMemory::NumBytes(ring.capacity()) + kLine - 1) / kLine * kLine;
  }
  OF_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create(size));
  std::string token(kTokenBytes, '\0');
  if (getrandom(token.data(), token.size(), 0) != kTokenBytes) return absl::UnavailableError("no random bytes");
  token.copy(memory.data(), token.size());
  announcement.set_pid(getpid());
  announcement.set_fd(memory.fd());
  announcement.set_size(size);
  announcement.set_token(std::move(token));
  auto file = std::unique_ptr<MailFile>(new MailFile(std::move(memory)));
  file->rings_ = std::move(rings);
  file->announcement_ = std::move(announcement);
  return file;
}

CoreBudget::Taken& MailFile::cores_taken() { return At<CoreBudget::Taken>(memory_, kTakenOffset); }

CoreBudget::Taken& PeerMailFile::cores_taken() { return At<CoreBudget::Taken>(memory_, kTakenOffset); }

Doorbell::Word& MailFile::bell(int thread) { return At<Doorbell::Word>(memory_, BellOffset(thread)); }

std::vector<std::pair<int, RingReader>> MailFile::ReadersOf(int thread) {
  std::vector<std::pair<int, RingReader>> readers;
  for (const Ring& ring : rings_) {
    if (ring.thread != thread) continue;
    readers.emplace_back(ring.process, RingReader(At<RingMemory>(memory_, ring.offset), ring.capacity));
  }
  return readers;
}

absl::StatusOr<std::unique_ptr<PeerMailFile>> PeerMailFile::Map(const pb::PeerMail& mail, int process) {
  if (mail.token().size() != kTokenBytes || mail.size() < kLine) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token of ", mail.token().size(), " bytes in a file of ", mail.size()));
  }
  OF_ASSIGN_OR_RETURN(SharedMemory memory,
                      SharedMemory::Map(mail.pid(), mail.fd(), mail.size(), SharedMemory::Access::kWrite));
  if (std::string(memory.data(), kTokenBytes) != mail.token()) {
    return absl::FailedPreconditionError(
        absl::StrCat("/proc/", mail.pid(), "/fd/", mail.fd(), " is another file here than there"));
  }
  auto file = std::unique_ptr<PeerMailFile>(new PeerMailFile(std::move(memory)));
  for (const pb::MailRing& ring : mail.rings()) {
    OF_RETURN_IF_ERROR(CheckRing(ring, mail.size()));
    if (ring.process() != process) continue;
    file->writers_[AddressOf(ring.rank(), ring.queue())] = std::make_unique<RingWriter>(
        At<RingMemory>(file->memory_, ring.offset()), ring.capacity(), At<Doorbell::Word>(file->memory_, ring.bell()));
  }
  return file;
}

}  // namespace oneflow
