#include "tools/study/sim/kernel_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "kernels/kernel.h"
#include "kernels/random.h"
#include "oneflow_core/queues.h"
#include "tools/job/first_error.h"
#include "tools/job/read_text.h"
#include "tools/study/sim/instruction_text.h"

namespace oneflow {
namespace {

constexpr const char* kDistances[] = {"queues", "ranks", "processes"};

int64_t NsOf(double us) { return std::llround(1e3 * us); }

int DistanceOf(const pb::Program& program, int from, int to) {
  if (from == to) return 0;
  return program.ranks(from).process() == program.ranks(to).process() ? 1 : 2;
}

using Times = google::protobuf::RepeatedField<double>;

bool AreTimes(const Times& times) {
  return std::all_of(times.begin(), times.end(), [](double x) { return std::isfinite(x) && x >= 0; });
}

absl::Status Check(const pb::KernelCosts& costs) {
  if (costs.version() != kKernelCostsVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has format version ", costs.version(), "; ours is ", kKernelCostsVersion));
  }
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": what it takes is no time"));
  };
  for (const pb::KernelCost& kernel : costs.kernels()) {
    if (!std::isfinite(kernel.us()) || kernel.us() < 0) return bad(kernel.instruction());
  }
  for (const pb::MessageCost& message : costs.messages()) {
    if (!AreTimes(message.us()) || message.us().empty()) return bad(message.between());
  }
  for (const pb::QueueCost& queue : costs.queues()) {
    if (!AreTimes(queue.wake_us()) || !AreTimes(queue.pause_us())) return bad(queue.queue());
  }
  return AreTimes(costs.step_factors()) ? absl::OkStatus() : bad("step_factors");
}

// One of them, the same for the same numbers; 0 if there are none.
double Draw(const std::vector<double>& values, uint64_t a, uint64_t b, uint64_t c) {
  if (values.empty()) return 0;
  return values[RandomKey(a, RandomKey(b, c)) % values.size()];
}

int RankRead(const pb::Plan& plan, const pb::Actor& actor, const pb::Operand& operand) {
  return operand.register_() < 0 ? actor.rank() : plan.actors(plan.registers(operand.register_()).producer()).rank();
}

bool CrossesHosts(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction,
                  const Topology& topology) {
  return std::any_of(instruction.inputs().begin(), instruction.inputs().end(), [&](const pb::Operand& operand) {
    return topology.HostOf(RankRead(plan, actor, operand)) != topology.HostOf(actor.rank());
  });
}

// What a copy reads of other ranks' memory.
double RemoteBytes(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction) {
  double bytes = 0;
  for (const pb::Piece& piece : instruction.pieces()) {
    const pb::Operand& from = instruction.inputs(piece.input());
    if (RankRead(plan, actor, from) == actor.rank()) continue;
    double count = static_cast<double>(SizeOf(static_cast<DType>(from.dtype())));
    for (const int64_t extent : piece.extent()) count *= static_cast<double>(extent);
    bytes += count;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<pb::KernelCosts> ReadKernelCosts(const std::string& path) {
  const std::string where = absl::StrCat("costs of kernels '", path, "'");
  OF_ASSIGN_OR_RETURN(const std::string text, ReadText("costs of kernels", path));
  pb::KernelCosts costs;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &costs)) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ":", error.line(), ":", error.column(), ": ", error.message()));
  }
  OF_RETURN_IF_ERROR_AT(Check(costs), where);
  return costs;
}

std::string KernelCostsText(const pb::KernelCosts& costs) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(costs, &text);
  return text;
}

absl::StatusOr<KernelCosts> KernelCosts::Of(const pb::KernelCosts& file, const pb::Program& program, int plan,
                                            const Topology& topology, const PredictedCosts& predicted,
                                            const KernelCostsOptions& options) {
  KernelCosts costs(program, plan, topology);
  OF_RETURN_IF_ERROR(costs.TakeActs(file, predicted, options));
  OF_RETURN_IF_ERROR(costs.TakeMessages(file, options));
  return costs;
}

absl::Status KernelCosts::TakeActs(const pb::KernelCosts& file, const PredictedCosts& predicted,
                                   const KernelCostsOptions& options) {
  std::map<std::string, int64_t> known;
  for (const pb::KernelCost& kernel : file.kernels()) known[kernel.instruction()] = NsOf(kernel.us());
  std::set<std::string> unknown;
  for (const pb::Actor& actor : plan_.actors()) {
    const int32_t index = static_cast<int32_t>(acts_.size());
    ActCost cost{.link = PredictedCost(topology_, predicted.acts()[index], actor.rank()).link};
    double remote_bytes = 0;
    for (const pb::Instruction& instruction : actor.instructions()) {
      ++num_instructions_;
      remote_bytes += RemoteBytes(plan_, actor, instruction);
      const bool by_links =
          instruction.kind() == pb::Instruction::COLLECTIVE || CrossesHosts(plan_, actor, instruction, topology_);
      if (!by_links) {
        const std::string text = InstructionText(program_, plan_, actor, instruction);
        if (const auto it = known.find(text); it != known.end()) {
          cost.ns += it->second;
          continue;
        }
        unknown.insert(text);
        ++num_predicted_;
      }
      const ActCost other = predicted.CostOf(actor, instruction);
      cost.ns += other.ns;
      cost.link_ns += other.link_ns;
      if (other.link >= 0) cost.link = other.link;
    }
    acts_.push_back({cost, static_cast<int64_t>(options.emulated_ns_per_byte * remote_bytes)});
    for (const pb::Landing& landing : actor.landings()) {
      shipment_ns_[{index, landing.register_()}] = predicted.ShipmentNs(index, landing.register_());
    }
  }
  step_factors_.assign(file.step_factors().begin(), file.step_factors().end());
  if (unknown.empty() || options.or_roofline) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("was not measured: ", *unknown.begin(), unknown.size() > 1 ? ", and " : "",
                                          unknown.size() > 1 ? absl::StrCat(unknown.size() - 1, " others") : "",
                                          "; measure this job with `oneflow bench kernels`, or let "
                                          "--kernels-or-roofline predict what is missing"));
}

absl::Status KernelCosts::TakeMessages(const pb::KernelCosts& file, const KernelCostsOptions& options) {
  std::map<std::string, const pb::MessageCost*> messages;
  for (const pb::MessageCost& message : file.messages()) messages[message.between()] = &message;
  bool needed[3] = {};
  for (const pb::Register& reg : plan_.registers()) {
    const pb::Actor& from = plan_.actors(reg.producer());
    for (const int32_t consumer : reg.consumers()) {
      const pb::Actor& to = plan_.actors(consumer);
      if (from.rank() == to.rank() && from.queue() == to.queue()) continue;
      if (topology_.HostOf(from.rank()) != topology_.HostOf(to.rank())) continue;
      needed[DistanceOf(program_, from.rank(), to.rank())] = true;
    }
  }
  for (int d = 0; d < 3; ++d) {
    const auto it = messages.find(kDistances[d]);
    if (it != messages.end()) message_us_[d].assign(it->second->us().begin(), it->second->us().end());
    if (it != messages.end() || !needed[d]) continue;
    if (!options.or_roofline) {
      return absl::NotFoundError(absl::StrCat("messages between ", kDistances[d], " were not measured"));
    }
    const Link link = d == 0 ? Link{} : d == 1 ? topology_.device().same_process : topology_.device().same_host;
    message_us_[d] = {1e6 * link.alpha_s};
  }
  queues_.resize(kNumQueues);
  for (const pb::QueueCost& cost : file.queues()) {
    const auto kind = std::find_if(std::begin(kQueues), std::end(kQueues),
                                   [&](const QueueKind& x) { return absl::EqualsIgnoreCase(x.name, cost.queue()); });
    if (kind == std::end(kQueues)) {
      return absl::InvalidArgumentError(absl::StrCat("queue '", cost.queue(), "': there is no such"));
    }
    queues_[kind->queue] = {{cost.wake_us().begin(), cost.wake_us().end()},
                            {cost.pause_us().begin(), cost.pause_us().end()}};
  }
  return absl::OkStatus();
}

SimulatedCosts KernelCosts::Costs() const {
  SimulatedCosts costs;
  costs.act = [this](int32_t actor, int64_t act) {
    const pb::Actor& of = plan_.actors(actor);
    const Act& known = acts_[actor];
    ActCost cost = known.cost;
    const double factor = step_factors_.empty() ? 1 : Draw(step_factors_, of.rank(), act / of.acts_per_step(), 0);
    cost.ns = std::max<int64_t>(known.least_ns, std::llround(factor * static_cast<double>(cost.ns)));
    return cost;
  };
  costs.message_ns = [this](int32_t from, int64_t act, int32_t to, int32_t) {
    const int a = plan_.actors(from).rank(), b = plan_.actors(to).rank();
    if (topology_.HostOf(a) != topology_.HostOf(b)) return NsOf(1e6 * topology_.LinkBetween(a, b).alpha_s);
    return NsOf(Draw(message_us_[DistanceOf(program_, a, b)], from, act, to));
  };
  costs.shipment_ns = [this](int32_t, int64_t, int32_t to, int32_t register_id) {
    const auto it = shipment_ns_.find({to, register_id});
    return it == shipment_ns_.end() ? 0 : it->second;
  };
  costs.shipment_link = [this](int32_t from, int32_t to, int32_t) {
    const int a = plan_.actors(from).rank(), b = plan_.actors(to).rank();
    return PredictedSenderLink(topology_, a, b, a);
  };
  costs.wake_ns = [this](int32_t actor, int64_t act) {
    return NsOf(Draw(queues_[plan_.actors(actor).queue()].wake_us, actor, act, 1));
  };
  costs.pause_ns = [this](int32_t actor, int64_t act) {
    return NsOf(Draw(queues_[plan_.actors(actor).queue()].pause_us, actor, act, 2));
  };
  return costs;
}

}  // namespace oneflow
