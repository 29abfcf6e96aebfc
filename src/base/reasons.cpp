#include "base/reasons.h"

namespace pellucid {
namespace {

constexpr ReasonRow kRows[] = {
#define REASON(id, name, what, why, fix, example) {Reason::name, #name, what, why, fix, example},
#include "base/reasons.def"
};

const ReasonRow& row_of(Reason reason) {
  for (const ReasonRow& row : kRows) {
    if (row.reason == reason) return row;
  }
  return kRows[0];
}

struct Words {
  std::string_view ours, users;
};
constexpr Words kTypes[] = {{"pellucid._core.TracedGenerator", "generator"}};

std::string in_users_words(const Field& field) {
  std::string text = field.value;
  for (const Words& row : kTypes) {
    const std::size_t at = text.find(row.ours);
    if (at != std::string::npos) text.replace(at, row.ours.size(), row.users);
  }
  return text;
}

}  // namespace

std::span<const ReasonRow> reasons() { return kRows; }

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
      if (field.key == key) out += in_users_words(field);
    }
    i = close;
  }
  return out;
}

GraphBreak::GraphBreak(Reason reason, std::initializer_list<Field> fields)
    : reason_(reason), message_(fill(row_of(reason).what, fields)) {}

std::string_view name_of(Reason reason) { return row_of(reason).name; }
std::string_view hint_of(Reason reason) { return row_of(reason).fix; }
std::string code_of(Reason reason) {
  std::string digits = std::to_string(static_cast<int>(reason));
  return "PEL" + std::string(4 - digits.size(), '0') + digits;
}

}  // namespace pellucid
