// Why capture stopped. One registry (reasons.def): ids never change, and every message a user sees about a split comes
// from its row.
#pragma once
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pellucid {

enum class Reason : std::uint16_t {
#define REASON(id, name, about, what, why, fix, example) name = id,
#include "base/reasons.def"
};

// Whose verdict a stop is.
enum class About : std::uint8_t { Code, Arguments, Caller };

// One row of the registry.
struct ReasonRow {
  Reason reason;
  About about;
  std::string_view name, what, why, fix, example;
};
std::span<const ReasonRow> reasons();

struct Field {
  std::string_view key;
  std::string value;
};

// Where code stands that calls a function whose default argument is Place::here(). std::source_location is the same,
// and unknown to the clang 14 that clang-tidy is of.
struct Place {
  const char* file;
  int line;
  const char* function;
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                              const char* function = __builtin_FUNCTION()) noexcept {
    return {file, line, function};
  }
};

// Thrown by a rule that cannot go on symbolically. The frame is at the start of its instruction.
class GraphBreak : public std::exception {
 public:
  GraphBreak(Reason reason, std::initializer_list<Field> fields = {}, Place thrown_at = Place::here());
  Reason reason() const noexcept { return reason_; }
  const Place& thrown_at() const noexcept { return thrown_at_; }
  std::string message() const { return message_; }  // what happened, with its fields filled in
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Reason reason_;
  Place thrown_at_;
  std::string message_;
};

std::string_view name_of(Reason reason);
About about(Reason reason);
std::string_view hint_of(Reason reason);
std::string code_of(Reason reason);  // "PEL0305"
// Throws GraphBreak: capture cannot go on symbolically.
[[noreturn]] inline void unsupported(Reason reason, std::initializer_list<Field> fields = {},
                                     Place thrown_at = Place::here()) {
  throw GraphBreak(reason, fields, thrown_at);
}

std::string text_of(const Place& place);  // "src/rows/logging.cpp:12 in refuse"

std::string fill(std::string_view message, std::initializer_list<Field> fields);

}  // namespace pellucid
