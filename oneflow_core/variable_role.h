// What a variable is for. What is trained, and what files of weights have, follows from it everywhere.
#pragma once

#include "oneflow_core/attr.h"

namespace oneflow {

enum class VariableRole {
  kState,      // of an optimizer, of text that is continued, ...: only checkpoints have it
  kWeight,     // is trained
  kStatistic,  // averages that a layer keeps while it is trained and computes with afterwards
  kAdapter,    // is trained beside a weight (compiler/adapters.h); a file of weights may have all or none of a job's
};

// Of a node 'variable', by its attributes.
inline VariableRole RoleOfVariable(const AttrMap& attrs) {
  if (attrs.Bool("trainable")) return attrs.Bool("adapter") ? VariableRole::kAdapter : VariableRole::kWeight;
  return attrs.Bool("statistic") ? VariableRole::kStatistic : VariableRole::kState;
}

// Where groups of ranks train by themselves, "w/local" is what each has of a variable w.
inline constexpr char kLocalSuffix[] = "/local";

// Whether the model computes with it: files of weights have it, and loading them fills it.
inline bool IsOfModel(VariableRole role) { return role != VariableRole::kState; }

// Whether its numbers are found by training.
inline bool IsLearned(VariableRole role) { return role == VariableRole::kWeight || role == VariableRole::kAdapter; }

// For texts of graphs and plans: "", " trainable", " statistic" or " adapter".
inline const char* MarkOf(VariableRole role) {
  if (role == VariableRole::kState) return "";
  if (role == VariableRole::kStatistic) return " statistic";
  return role == VariableRole::kWeight ? " trainable" : " adapter";
}

}  // namespace oneflow
