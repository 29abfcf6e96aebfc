#include <set>

#include "base/reasons.h"
#include "check.h"

using namespace pellucid;

TEST("reasons: every row has its own code, a message and a hint") {
  std::set<std::string> codes;
  int rows = 0;
#define REASON(id, name, message, hint)                     \
  ++rows;                                                   \
  codes.insert(code_of(Reason::name));                      \
  CHECK_EQ(name_of(Reason::name), std::string_view(#name)); \
  CHECK(!std::string_view(message).empty());
#include "base/reasons.def"
  CHECK_EQ(codes.size(), static_cast<std::size_t>(rows));
}

TEST("reasons: fields are filled in") {
  CHECK_EQ(fill("call of {what} in {where}", {{"where", "f"}, {"what", "g"}}), "call of g in f");
  CHECK_EQ(fill("no fields", {}), "no fields");
}
