#include "base/reasons.h"

namespace pellucid {
namespace {

constexpr ReasonRow kRows[] = {
#define REASON(id, name, about, what, why, fix, example) {Reason::name, About::about, #name, what, why, fix, example},
#include "base/reasons.def"
};

const ReasonRow& row_of(Reason reason) {
  for (const ReasonRow& row : kRows) {
    if (row.reason == reason) return row;
  }
  return kRows[0];
}

bool begins_with_vowel(std::string_view word) {
  return !word.empty() && std::string_view("aeioAEIO").find(word.front()) != std::string_view::npos;
}

// "a" becomes "an" where the word wants it.
void append(std::string& out, std::string_view word) {
  const bool has_article = out == "a " || out.ends_with(" a ");
  if (has_article && begins_with_vowel(word)) out.back() = 'n', out += ' ';
  out += word;
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
      if (field.key == key) append(out, field.value);
    }
    i = close;
  }
  return out;
}

GraphBreak::GraphBreak(Reason reason, std::initializer_list<Field> fields, Place thrown_at)
    : reason_(reason), thrown_at_(thrown_at), message_(fill(row_of(reason).what, fields)) {}

std::string text_of(const Place& place) {
  const std::string_view file = place.file;
  const std::size_t below = file.rfind("src/");  // not where it was built
  std::string text(below == std::string_view::npos ? file : file.substr(below));
  return text.append(":").append(std::to_string(place.line)).append(" in ").append(place.function);
}

std::string_view name_of(Reason reason) { return row_of(reason).name; }
About about(Reason reason) { return row_of(reason).about; }
std::string_view hint_of(Reason reason) { return row_of(reason).fix; }
std::string code_of(Reason reason) {
  std::string digits = std::to_string(static_cast<int>(reason));
  return "PEL" + std::string(4 - digits.size(), '0') + digits;
}

}  // namespace pellucid
