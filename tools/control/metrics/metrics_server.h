#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tools/control/http/http_server.h"
#include "tools/control/metrics/families.h"

namespace oneflow {

// Serves /metrics at `place`: what `write` writes whenever someone asks, on a thread of the server. Errors of
// HttpServer::Start().
absl::StatusOr<std::unique_ptr<HttpServer>> ServeMetrics(const std::string& place, HttpAccess access,
                                                         std::function<void(Families&)> write);

}  // namespace oneflow
