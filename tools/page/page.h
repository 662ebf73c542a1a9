// The scheduler's page: what goes on in a cluster, to be looked at in a browser.
//
//   GET /                        the page; its program and style are in this binary, and need no network
//   GET /api/live?jobs=1,2       server-sent events: something has changed in the list, or in these jobs
//   GET /api/jobs?before=N       jobs, the newest first; how many there are by state
//   GET /api/jobs/N              what is known of one; /history its curves and events; /plan memory by what it is
//                                for, and the plan; /explain why tensors lie as they do; /trace the acts of a step
//   GET /api/nodes               daemons and their devices
//
// It only reads, and what it reads it keeps itself: histories of the jobs that someone looks at, grown from the store
// as events come, a few jobs at a time. What is told of a job grows with the width of a screen and not with its steps.
// Text of jobs enters the document as text alone.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/control/http/http_server.h"
#include "tools/control/scheduler/page_source.h"
#include "tools/control/security/paths.h"

namespace oneflow {

// Serves the page at `place`. `source` is borrowed. `executable`: of this program, which explains plans in a process of
// its own that opens no file of theirs. `allowed`: traces that may be shown; who submits a job names its trace, and
// need not be one who may read what we may. Errors of HttpServer::Start().
absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(const std::string& place, HttpAccess access, PageSource& source,
                                                      const std::string& executable, AllowedPaths allowed);

}  // namespace oneflow
