// The data channel over UCX, for the table in data_channel.cc alone.
#pragma once

#include <memory>

#include "actor/transport/data_channel.h"

namespace oneflow {

// Errors as DataChannel::Create.
absl::StatusOr<std::unique_ptr<DataChannel>> OpenUcxChannel(const DataChannel::Options& options);

}  // namespace oneflow
