#include "tools/control/worker/agreement.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/job/visible_text.h"

namespace oneflow {

pb::WorkerFailed ToProto(const absl::Status& status) {
  pb::WorkerFailed failed;
  failed.set_code(static_cast<int>(status.code()));
  failed.set_message(VisibleText(status.message()));
  return failed;
}

absl::Status FromProto(const pb::WorkerFailed& failed) {
  return absl::Status(static_cast<absl::StatusCode>(failed.code()), failed.message());
}

absl::Status Agree(Engine& engine, const absl::Status& mine) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> notes, engine.Exchange(ToProto(mine).SerializeAsString()));
  for (size_t process = 0; process < notes.size(); ++process) {
    pb::WorkerFailed theirs;
    if (!theirs.ParseFromString(notes[process])) {
      return absl::InternalError(absl::StrCat("process ", process, " says ", notes[process].size(), " odd bytes"));
    }
    const absl::Status status = FromProto(theirs);
    if (!status.ok()) return notes.size() == 1 ? status : Annotate(status, absl::StrCat("process ", process));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
