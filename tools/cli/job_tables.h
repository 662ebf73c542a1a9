// What people and programs see of the jobs and nodes of a cluster, as text.
//
//     job  name  state     size   attempt  submitted            message
//       1  gpt   RUNNING   2 x 2  2/3      2026-11-23 10:12:03
//       2  gpt   QUEUED    4 x 2  0/1      2026-11-23 10:12:09  4 processes of 2 cpu devices each; 2 are free
//
// Names and messages come from others: what a terminal would obey in them is not written.
#pragma once

#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace oneflow {

// One line a job; states in colour if that is wanted.
std::string JobsTable(const std::vector<pb::JobStatus>& jobs, bool colour);
// One JSON object a line, with every field of JobStatus.
std::string JobsJson(const std::vector<pb::JobStatus>& jobs);
// All of one job: where its workers are, what it waits for or why it ended, what it was submitted as.
// `ended`: the notice of why its training ended early; empty: it did not.
std::string JobText(const pb::DescribeReply& job, const std::string& ended = "");
// One line a daemon.
std::string NodesTable(const std::vector<pb::Node>& nodes);

}  // namespace oneflow
