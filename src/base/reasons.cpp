#include "base/reasons.h"

namespace pellucid {
namespace {
struct Row {
  Reason reason;
  std::string_view name, message, hint;
};
constexpr Row kRows[] = {
#define REASON(id, name, message, hint) {Reason::name, #name, message, hint},
#include "base/reasons.def"
};
const Row& row_of(Reason reason) {
  for (const Row& row : kRows) {
    if (row.reason == reason) return row;
  }
  return kRows[0];
}
}  // namespace

std::string fill(std::string_view message, std::initializer_list<Field> fields) {
  std::string out;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const std::size_t close = message[i] == '{' ? message.find('}', i) : std::string_view::npos;
    if (close == std::string_view::npos) {
      out += message[i];
      continue;
    }
    const std::string_view key = message.substr(i + 1, close - i - 1);
    for (const Field& field : fields) {
      if (field.key == key) out += field.value;
    }
    i = close;
  }
  return out;
}

GraphBreak::GraphBreak(Reason reason, std::initializer_list<Field> fields)
    : reason_(reason), message_(fill(row_of(reason).message, fields)) {}

std::string_view name_of(Reason reason) { return row_of(reason).name; }
std::string_view hint_of(Reason reason) { return row_of(reason).hint; }
std::string code_of(Reason reason) {
  std::string digits = std::to_string(static_cast<int>(reason));
  return "PEL" + std::string(4 - digits.size(), '0') + digits;
}

}  // namespace pellucid
