#include <set>

#include "base/reasons.h"
#include "base/unique_names.h"
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

TEST("reasons: the article goes by the word") {
  CHECK_EQ(GraphBreak(Reason::UnsupportedProtocol, {{"protocol", "len"}, {"type", "iterator"}}).message(),
           "len of an iterator cannot be followed");
  CHECK_EQ(GraphBreak(Reason::UnsupportedProtocol, {{"protocol", "len"}, {"type", "set"}}).message(),
           "len of a set cannot be followed");
  CHECK_EQ(fill("a {type}, extra {type}", {{"type", "int"}}), "an int, extra int");
}

TEST("reasons: whose verdict a stop is") {
  CHECK(about(Reason::DataDependent) == About::Code);
  CHECK(about(Reason::ExceptionEscapes) == About::Arguments);
  CHECK(about(Reason::FunctionTransform) == About::Caller);
}

TEST("reasons: fields are filled in") {
  CHECK_EQ(fill("call of {what} in {where}", {{"where", "f"}, {"what", "g"}}), "call of g in f");
  CHECK_EQ(fill("no fields", {}), "no fields");
}

namespace {
int looks = 0;
struct CountingHash {
  std::size_t operator()(const std::string& text) const { return ++looks, std::hash<std::string>{}(text); }
};
}  // namespace

TEST("unique names: the first free one, without looking at those before") {
  UniqueNames<CountingHash> names;
  names.reserve("x_2");
  for (const char* expected : {"x", "x_1", "x_3", "x_4"}) CHECK_EQ(names.take("x"), expected);
  CHECK_EQ(names.take("x_3"), "x_3_1");
  constexpr int kMany = 10000;
  looks = 0;
  for (int i = 0; i < kMany; ++i) (void)names.take("method");
  CHECK_EQ(names.take("method"), "method_" + std::to_string(kMany));
  CHECK(looks < 10 * kMany);
}
