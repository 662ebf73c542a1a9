#include "test/support/cuda/nccl_rendezvous.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace oneflow::software_cuda {
namespace {

// What a rank says of itself.
struct Introduction {
  int32_t num_ranks = 0, rank = 0, physical_device = 0;
  char host[64] = {};  // NCCL_HOSTID; empty: this machine
  char address[64] = {};
};

// Who calls, and for what, as the caller sees it.
enum Channel : int32_t { kControl, kSend, kReceive, kNumChannels };
struct Hello {
  int32_t rank = 0;
  Channel channel = kControl;
};

// Ranks that are not so many as they say, or are there twice, get no answer.
void ServeRanks(const Socket& listener) {
  std::vector<Introduction> table;
  std::vector<Socket> ranks;
  do {
    Socket rank = Accept(listener, nullptr);
    Introduction said;
    if (!rank.is_open() || !Receive(rank, &said, sizeof said, nullptr)) continue;  // gone again
    if (table.empty()) {
      table.resize(static_cast<size_t>(said.num_ranks));
      ranks.resize(table.size());
    }
    const bool agrees = said.num_ranks == static_cast<int>(table.size()) && !ranks[said.rank].is_open();
    if (!agrees) return;
    table[said.rank] = said;
    ranks[said.rank] = std::move(rank);
  } while (std::any_of(ranks.begin(), ranks.end(), [](const Socket& rank) { return !rank.is_open(); }) ||
           ranks.empty());
  for (const Socket& rank : ranks) Send(rank, table.data(), table.size() * sizeof table[0]);
}

Introduction Introduce(const Membership& self) {
  Introduction said = {.num_ranks = self.num_ranks, .rank = self.rank, .physical_device = self.physical_device};
  const char* const host = std::getenv("NCCL_HOSTID");
  std::snprintf(said.host, sizeof said.host, "%s", host == nullptr ? "" : host);
  std::snprintf(said.address, sizeof said.address, "%s", NewAddress().c_str());
  return said;
}

// Two ranks with one device, or an empty text.
std::string SharedDevice(const std::vector<Introduction>& table) {
  for (const Introduction& a : table) {
    for (const Introduction& b : table) {
      if (a.rank >= b.rank || a.physical_device != b.physical_device || std::strcmp(a.host, b.host) != 0) continue;
      return "ranks " + std::to_string(a.rank) + " and " + std::to_string(b.rank) + " are both on device " +
             std::to_string(a.physical_device) + " of one machine";
    }
  }
  return {};
}

Socket& SocketOf(Link& link, Channel channel) {
  return channel == kControl ? link.control : channel == kSend ? link.send : link.receive;
}

bool Call(const Introduction& other, int rank, Link* link) {
  for (const Channel channel : {kControl, kSend, kReceive}) {
    Socket& socket = SocketOf(*link, channel);
    socket = Connect(other.address);
    const Hello hello = {rank, channel};
    if (!socket.is_open() || !Send(socket, &hello, sizeof hello)) return false;
  }
  return true;
}

bool Answer(const Socket& listener, const Gate& gate, std::vector<Link>* links) {
  Socket socket = Accept(listener, &gate);
  Hello hello;
  if (!socket.is_open() || !Receive(socket, &hello, sizeof hello, &gate)) return false;
  const Channel mine = hello.channel == kSend ? kReceive : hello.channel == kReceive ? kSend : kControl;
  SocketOf((*links)[hello.rank], mine) = std::move(socket);
  return true;
}

bool Connect(const std::vector<Introduction>& table, int rank, const Socket& listener, const Gate& gate,
             std::vector<Link>* links) {
  for (int other = 0; other < rank; ++other) {
    if (!Call(table[other], rank, &(*links)[other])) return false;
  }
  const int num_calls = (static_cast<int>(table.size()) - 1 - rank) * kNumChannels;
  for (int i = 0; i < num_calls; ++i) {
    if (!Answer(listener, gate, links)) return false;
  }
  return true;
}

}  // namespace

ncclResult_t MakeId(ncclUniqueId* id) {
  const std::string address = NewAddress();
  Socket listener = Listen(address);
  if (!listener.is_open()) return ncclSystemError;
  *id = {};
  std::memcpy(id->internal, address.data(), address.size());
  std::thread([listener = std::move(listener)] { ServeRanks(listener); }).detach();
  return ncclSuccess;
}

ncclResult_t Meet(const ncclUniqueId& id, const Membership& self, const Gate& gate, std::vector<Link>* links,
                  std::string* error) {
  const Introduction said = Introduce(self);
  const Socket listener = Listen(said.address);
  if (!listener.is_open()) {
    *error = "there are no more sockets";
    return ncclSystemError;
  }
  const Socket root = Connect(std::string(id.internal, strnlen(id.internal, sizeof id.internal)));
  std::vector<Introduction> table(static_cast<size_t>(self.num_ranks));
  if (!root.is_open() || !Send(root, &said, sizeof said) ||
      !Receive(root, table.data(), table.size() * sizeof table[0], &gate)) {
    *error = "the process that made the id is gone, the id was used before, or ranks contradict one another";
    return ncclRemoteError;
  }
  *error = SharedDevice(table);
  if (!error->empty()) return ncclInvalidUsage;
  links->resize(table.size());
  if (Connect(table, self.rank, listener, gate, links)) return ncclSuccess;
  *error = "another rank has ended while ranks were connecting";
  return ncclRemoteError;
}

}  // namespace oneflow::software_cuda
