#include "actor/transport/data_channel.h"

#include "actor/transport/ucx_channel.h"

namespace oneflow {
namespace {

struct ChannelKind {
  const char* name;  // in announcements: both ends must have the same
  absl::StatusOr<std::unique_ptr<DataChannel>> (*open)(const DataChannel::Options& options);
};

constexpr ChannelKind kChannelKinds[] = {
    {.name = "ucx", .open = OpenUcxChannel},
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataChannel>> DataChannel::Create(const Options& options) {
  absl::Status first;
  for (const ChannelKind& kind : kChannelKinds) {
    Options of_kind = options;
    of_kind.kind = kind.name;
    absl::StatusOr<std::unique_ptr<DataChannel>> channel = kind.open(of_kind);
    if (channel.ok()) return channel;
    if (first.ok()) first = channel.status();
  }
  return Annotate(first, "data between hosts");
}

}  // namespace oneflow
