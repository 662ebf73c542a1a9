// What a scheduler tells a page about itself, and how it is given one. The page is a room above this one (tools/page/):
// a scheduler is handed the function that serves it, and serves none without.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "tools/control/http/http_server.h"
#include "tools/control/security/paths.h"

namespace oneflow {

// Where a page has what it shows from. Any thread; nothing here holds up a scheduler for longer with more history.
class PageSource {
 public:
  virtual ~PageSource() = default;

  // At most `limit`, the newest first, of those before job `before`; 0: of all.
  virtual std::vector<pb::JobStatus> Jobs(int64_t before, int limit) = 0;
  virtual std::array<int64_t, pb::JobState_ARRAYSIZE> JobCounts() = 0;
  virtual int64_t JobsVersion() = 0;  // another one after every change
  // NotFound.
  virtual absl::StatusOr<pb::DescribeReply> Describe(int64_t job, bool with_plan) = 0;
  // At most `limit` of those that are there; none if there are no more. FailedPrecondition if they are no longer kept.
  virtual absl::StatusOr<std::vector<pb::JobEvent>> Events(int64_t job, int64_t from, int limit) = 0;
  virtual int64_t NumEvents(int64_t job) = 0;  // 0 if there is no such job
  virtual std::vector<pb::Node> Nodes() = 0;
};

// Serves a page of `source`, which is borrowed, at `place`: ServePage() of tools/page/page.h, which says what the
// others are.
using PageServer = std::function<absl::StatusOr<std::unique_ptr<HttpServer>>(
    const std::string& place, HttpAccess access, PageSource& source, const std::string& executable,
    AllowedPaths allowed)>;

}  // namespace oneflow
