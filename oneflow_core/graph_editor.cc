#include "oneflow_core/graph_editor.h"

namespace oneflow {

void GraphEditor::set_role(Role role, NodeId forward, NodeId variable) {
  like_.role = role;
  like_.forward = forward;
  like_.variable = variable;
  like_.chunk = -1;
}

void GraphEditor::Imitate(const Node& like) {
  CopyProvenance(like, like_);
  set_source(like.source);
  set_placement_hint(like.at);
}

}  // namespace oneflow
