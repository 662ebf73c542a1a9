// What a job that goes on from a checkpoint does otherwise than the job that saved it.
#pragma once

#include <string>

namespace oneflow {

// The fields that decide how training goes on (model, data, optimizer, schedule, batches, precision) in which two job
// configs differ, each with both values: "train.batch_size 4 -> 8, data.text.path \"a\" -> \"b\"". Empty if there are
// none, or if one of them is no config: a job may have been declared in a program.
std::string ConfigDifference(const std::string& saved, const std::string& now);

}  // namespace oneflow
