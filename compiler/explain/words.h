// Facts as words: numbers with units, names of tensors, links and boxings as people read them.
#pragma once

#include <string>

#include "compiler/explain/facts.h"

namespace oneflow {

// "512 B", "1.5 KiB", "24.0 MiB".
std::string BytesText(int64_t bytes);
// "850 ns", "12.3 us", "4.56 ms", "1.2 s".
std::string SecondsText(double seconds);
// The same with its sign.
std::string DifferenceText(double seconds);
// "3 boxings", "1 boxing".
std::string CountText(int64_t count, absl::string_view noun);

// "h0/ln1/layer_norm", and ":1" behind it for the second output.
std::string TensorName(const Graph& graph, ValueId value);
// "(matmul, models/gpt.cc:42)".
std::string OpAndSource(const Node& node);

// "1 MiB within a process, 3 MiB between processes"; "nothing" if no byte moves; "at most 1 MiB ..." where
// rows are ragged.
std::string LinksText(const LinkBytes& bytes);
// "(S(0),P) -> (S(0),B)", with the placements if they differ.
std::string ChangeText(const DistType& from, const DistType& to);
// The name of a boxing: "all-reduce along tp", "all-gather along dp then to ranks 2,3", "local".
std::string HowText(const GraphFacts& facts, const BoxingFacts& boxing);
std::string HowText(const GraphFacts& facts, const BoxingStepFacts& step);
// One word for the whole boxing: a collective's name, "several" or "exchange".
std::string KindText(const GraphFacts& facts, const BoxingFacts& boxing);

// "asked for at data.cc:30", "follows 'to_2', asked for at data.cc:30", "chosen by cost", ...
std::string OriginText(const GraphFacts& facts, const Origin& origin, absl::string_view axis);

}  // namespace oneflow
