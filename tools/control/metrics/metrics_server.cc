#include "tools/control/metrics/metrics_server.h"

#include <utility>

namespace oneflow {
namespace {

constexpr int kMetricsThreads = 2;  // Prometheus, and a person who looks

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> ServeMetrics(const std::string& place, HttpAccess access,
                                                         std::function<void(Families&)> write) {
  const HttpRoute route{"/metrics", [write = std::move(write)](const HttpRequest&) {
                          Families families;
                          write(families);
                          HttpReply reply;
                          reply.type = "text/plain; version=0.0.4; charset=utf-8";
                          reply.body = families.Text();
                          return reply;
                        }};
  return HttpServer::Start("--metrics-port", place, {route}, {.threads = kMetricsThreads}, std::move(access));
}

}  // namespace oneflow
