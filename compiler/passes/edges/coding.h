// Which matrices of a job travel as codes, and with which numbers: what `compress` of a job says of each.
#pragma once

#include <string>
#include <vector>

#include "compiler/passes/edges/codec.h"

namespace oneflow {

// What may be chosen for one matrix while the job runs: counts that rise.
struct CodeCounts {
  std::vector<int64_t> counts;
  std::vector<double> bytes;  // of each
  int usual = 0;              // the one that the options say
};

class Coding {
 public:
  // Borrows both. `ranks`: along the axis.
  Coding(const CompressOptions& options, const Codec& codec, int64_t ranks)
      : options_(options), codec_(codec), ranks_(static_cast<double>(ranks)) {}

  // The group of a variable; null: none has it.
  const CompressGroup* GroupOf(const std::string& variable) const;
  // Bytes of an all-reduce of its codes, on average over the ranks that send.
  double BytesOf(double n, double m, const CompressOptions& options) const;
  // What its codec is asked for.
  CompressOptions OptionsOf(const std::string& variable) const;
  // A matrix or larger, whose codes are fewer bytes than its elements, and which is not to be exact.
  bool IsCoded(const std::string& variable, const Shape& shape) const;
  // Whole numbers of a codec that takes whole ones, others in steps of a fifth; as far as codes of them are fewer bytes
  // than the elements. REQUIRES: it is coded, and the options have a choice.
  CodeCounts CountsOf(const std::string& variable, const Shape& shape) const;

 private:
  const CompressOptions& options_;
  const Codec& codec_;
  const double ranks_;
};

}  // namespace oneflow
