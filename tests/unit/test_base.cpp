#include <set>

#include "base/reasons.h"
#include "check.h"

using namespace pellucid;

TEST("reasons: every row has its own code and all its words") {
  std::set<std::string> codes;
  for (const ReasonRow& row : reasons()) {
    codes.insert(code_of(row.reason));
    CHECK_EQ(name_of(row.reason), row.name);
    CHECK(!row.what.empty());
    CHECK(!row.why.empty());
    CHECK(!row.fix.empty());
    const bool own_check = row.reason == Reason::Internal || row.reason == Reason::UnknownOrigin;
    CHECK(!row.example.empty() || own_check);
  }
  CHECK_EQ(codes.size(), reasons().size());
}

TEST("reasons: messages use the user's words") {
  CHECK_EQ(GraphBreak(Reason::CannotReconstruct, {{"type", "pellucid._core.TracedGenerator"}}).message(),
           "a new generator leaves the function and cannot be built again");
}

TEST("reasons: fields are filled in") {
  CHECK_EQ(fill("call of {what} in {where}", {{"where", "f"}, {"what", "g"}}), "call of g in f");
  CHECK_EQ(fill("no fields", {}), "no fields");
}
