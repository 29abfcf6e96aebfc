#include "graph/names.h"

#include <array>
#include <cctype>
#include <memory>
#include <utility>

#include "py/ref.h"

namespace pellucid::graph {
namespace {

constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// Letters and digits of ASCII: what the locale takes for letters is none of an identifier's. A table, since all names
// of a graph come by here several times.
constexpr std::array<bool, 256> kWordCharacters = [] {
  std::array<bool, 256> table{};
  for (std::size_t c = 0; c < 128; ++c) {
    const char as_char = static_cast<char>(c);
    table[c] = is_upper(as_char) || is_lower(as_char) || (as_char >= '0' && as_char <= '9');
  }
  return table;
}();
constexpr bool is_word(char c) { return kWordCharacters[static_cast<unsigned char>(c)]; }

// Every run of other characters becomes one "_".
std::string replace_runs(std::string_view text, bool keep_underscore) {
  std::string out(text.size(), '_');
  std::size_t size = 0;
  bool in_run = false;
  for (const char c : text) {
    const bool fine = is_word(c) || (keep_underscore && c == '_');
    if (fine)
      out[size++] = c;
    else if (!in_run)
      out[size++] = '_';
    in_run = !fine;
  }
  out.resize(size);
  return out;
}

void add_names(std::unordered_set<std::string>& out, PyObject* names) {
  auto sequence = py::take(PySequence_List(names));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sequence.get()); ++i)
    out.insert(py::text_of(PyList_GET_ITEM(sequence.get(), i)));
}

// What generated code may not use for a variable: keywords, builtins, and torch.fx's own globals.
const std::unordered_set<std::string>& illegal_names() {
  static const std::unordered_set<std::string>* names = [] {
    auto made = std::make_unique<std::unordered_set<std::string>>();
    add_names(*made, py::import_attr("keyword", "kwlist").get());
    add_names(*made, py::import_attr("builtins", "__dict__").get());
    for (const char* name : {"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"}) made->insert(name);
    return made.release();
  }();
  return *names;
}

std::string as_identifier(std::string_view candidate) {
  std::string name = replace_runs(candidate, true);
  if (name.empty()) name = "_unnamed";
  if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(name.begin(), '_');
  return name;
}

std::string numbered(std::string_view base, int number) {
  std::string name(base);
  name += '_';
  name += std::to_string(number);
  return name;
}

// "conv_12" -> ("conv", 12); number -1 when the name has none.
std::pair<std::string, int> split_number(const std::string& name) {
  std::size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
  const std::size_t length = name.size() - digits;
  if (length == 0 || length > 8 || digits < 2 || name[digits - 1] != '_') return {name, -1};
  return {name.substr(0, digits - 1), std::stoi(name.substr(digits))};
}

}  // namespace

std::string Namespace::unique(std::string_view candidate) {
  std::string name = as_identifier(candidate);
  auto [base, number] = split_number(name);
  if (number < 0 || used_.count(name) != 0) {
    const auto found = count_.find(base);
    number = found == count_.end() ? 0 : found->second;
    if (illegal_names().count(name) != 0) name = numbered(base, ++number);
  }
  while (used_.count(name) != 0) name = numbered(base, ++number);
  count_[base] = number;
  used_.insert(name);
  return name;
}

std::string Namespace::unique_plain(std::string_view candidate) {
  std::string name(candidate);
  for (int i = 0; used_.count(name) != 0; ++i) name = numbered(candidate, i);
  used_.insert(name);
  return name;
}

void Namespace::reserve(std::string_view name) { used_.emplace(name); }

std::string snake_case(std::string_view text) {
  std::string out(2 * text.size(), '_');
  std::size_t size = 0;
  char before = '_';
  for (const char c : text) {
    if (is_upper(c) && is_lower(before)) ++size;  // there is a "_" already
    out[size++] = is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    before = c;
  }
  out.resize(size);
  return out;
}

std::string candidate_of_target(PyObject* target) {
  if (!PyUnicode_Check(target)) {
    static PyObject* const attribute = py::interned("__name__").release();
    auto name = py::Owned<>::steal(PyObject_GetAttr(target, attribute));
    if (!name) PyErr_Clear();  // a callable object without a name, such as a functools.partial
    return snake_case(py::text_of(name ? name.get() : nullptr));
  }
  std::string text = py::text_of(target);
  if (text.starts_with("__") && text.ends_with("__")) text = text.size() < 4 ? "" : text.substr(2, text.size() - 4);
  return snake_case(text);
}

std::string identifier_of_source(std::string_view text) {
  // A free variable of the entry reads like a local there.
  constexpr std::string_view kCell = ".cell_contents";
  const std::size_t cell = text.find(kCell);
  if (text.starts_with("F[") && cell != std::string_view::npos && text.find(']') + 1 == cell) {
    std::string local = "L";
    local += text.substr(1, cell - 1);
    local += text.substr(cell + kCell.size());
    return replace_runs(local, false);
  }
  return replace_runs(text, false);
}

}  // namespace pellucid::graph
