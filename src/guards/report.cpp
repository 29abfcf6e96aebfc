#include "guards/report.h"

#include <algorithm>
#include <unordered_map>

#include "guards/operand.h"
#include "guards/traits.h"
#include "py/traceback.h"

namespace pellucid::guards {
namespace {

constexpr std::string_view kSteps[] = {
#define SOURCE(kind, operand, printed) #kind,
#include "source/sources.def"
};

// A condition of the backend, which has none.
bool asks(const Check& check) { return check.kind != Kind::CONDITION || !check.condition->is_empty(); }

std::string place_of(const Description& d) {
  if (d.file.empty()) return {};
  return std::string(" (")
      .append(d.file)
      .append(":")
      .append(std::to_string(d.line))
      .append(d.operation.empty() ? "" : ", ")
      .append(d.operation)
      .append(")");
}

}  // namespace

// Describes guards; those of one program have the beginnings of their sources and their lines in common.
class GuardReport::Words {
 public:
  explicit Words(const PyObject* home) : sources_(source::Printer::from(home)) {}

  Description kind_and_place(const Check& check, const Guard& guard) {
    Description d;
    d.kind = name_of(check.kind);
    d.operation = guard.why.operation;
    if (PyCodeObject* code = guard.why.code.get()) {
      d.file = py::text_of(code->co_filename);
      d.line = line_of(code, guard.why.offset);
    }
    return d;
  }

  void add_text(Description& d, const Check& check, const Guard& guard) {
    d.text = expected_text(check);
    if (guard.source == nullptr) return;
    d.source = sources_.text_of(guard.source);
    d.source_kind = kSteps[static_cast<std::size_t>(guard.source->step)];
  }

 private:
  // CPython reads the table of lines from its start.
  int line_of(PyCodeObject* code, int offset) {
    const auto [place, fresh] = lines_[code].try_emplace(offset, 0);
    if (fresh) place->second = py::line_of(code, offset);
    return place->second;
  }

  source::Printer sources_;
  std::unordered_map<PyCodeObject*, std::unordered_map<int, int>> lines_;
};

std::string Miss::message() const {
  std::string text = description.kind;
  if (!description.source.empty()) text.append(" ").append(description.source);
  text.append(": expected ").append(expected).append(", found ").append(found).append(place_of(description));
  if (!suggestion.empty()) text.append("; ").append(suggestion);
  return text;
}

// Fresh values for every node, kept alive while they are looked at; the latches of the hot path are left alone.
std::vector<py::Owned<>> GuardReport::evaluate_all(PyObject* const* locals, PyObject* closure) const {
  std::vector<py::Owned<>> values;
  values.reserve(program_.nodes_.size());
  for (const GuardProgram::Node& node : program_.nodes_) {
    PyObject* base = node.parent == GuardProgram::kNone ? nullptr : values[node.parent].get();
    values.push_back(node.attributes ? py::Owned<>::share(base)
                                     : source::evaluate_step(node.source, base, locals, closure));
  }
  return values;
}

// Of a check between many values; nothing: of another one.
std::optional<std::vector<GuardProgram::Wanted>> GuardReport::wanted_by(std::size_t check) const {
  for (const GuardProgram::Conditional& conditional : program_.conditionals_) {
    if (conditional.check == check) return conditional.operands;
  }
  for (const GuardProgram::Distinct& distinct : program_.distincts_) {
    if (distinct.check != check) continue;
    std::vector<GuardProgram::Wanted> wanted;
    for (const std::uint32_t node : distinct.nodes) wanted.push_back({node});
    return wanted;
  }
  return std::nullopt;
}

GuardReport::Operands GuardReport::operands_of(std::size_t check, const std::vector<py::Owned<>>& values) const {
  Operands operands;
  if (const std::uint32_t node = program_.node_of_check_[check]; node != GuardProgram::kNone) {
    operands.value = values[node].get();
    operands.present = operands.value != nullptr;
    return operands;
  }
  for (const GuardProgram::Pair& pair : program_.pairs_) {
    if (pair.check != check) continue;
    operands.value = program_.nodes_[pair.node].compared_value(values[pair.node].get());
    operands.other = program_.nodes_[pair.other].compared_value(values[pair.other].get());
    operands.present = operands.value != nullptr && operands.other != nullptr;
  }
  const auto all = wanted_by(check);
  if (!all) return operands;
  operands.tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(all->size())));
  Py_ssize_t i = 0;
  for (const GuardProgram::Wanted& wanted : *all) {
    auto value = values[wanted.node].copy();
    if (wanted.layout != nullptr) value = source::evaluate_step(wanted.layout, value.get(), nullptr, nullptr);
    operands.present = operands.present && value;
    PyTuple_SET_ITEM(operands.tuple.get(), i++, value ? value.release() : Py_NewRef(Py_None));
  }
  operands.value = operands.tuple.get();
  return operands;
}

// The sources of a check between several values; none of another one.
std::vector<std::string> GuardReport::names_of(std::size_t check) const {
  const auto name = [&](const Source* source) { return source::print_from(source, program_.home_); };
  std::vector<std::string> names;
  if (const auto all = wanted_by(check)) {
    for (const GuardProgram::Wanted& wanted : *all) names.push_back(name(wanted.source(program_)));
    return names;
  }
  const Guard& guard = program_.given_->guards[program_.checks_[check].guard];
  if (guard.other != nullptr) names = {name(guard.source), name(guard.other)};
  return names;
}

Miss GuardReport::miss_of(std::size_t index, const Operands& operands) const {
  const Check& check = program_.checks_[index];
  Miss miss;
  miss.guard = check.guard;
  Words words(program_.home_);
  miss.description = description_of(check, words);
  miss.source = program_.given_->guards[check.guard].source;
  miss.expected = operands.present ? missed_text(check, operands.value) : expected_text(check);
  miss.found =
      operands.present ? found_text(check, operands.value, operands.other, names_of(index)) : "that it does not exist";
  miss.suggestion = suggestion(check);
  return miss;
}

Miss GuardReport::death() const {
  Miss miss;
  miss.guard = program_.size();
  miss.description.kind = "ALIVE";
  miss.expected = "the objects that the compiled code depends on";
  miss.found = "that one of them is gone";
  miss.suggestion = "keep what the program reads alive between the calls";
  return miss;
}

std::optional<Miss> GuardReport::first_miss(PyObject* const* locals, PyObject* closure) const {
  const auto locked = program_.hold_.lock();
  if (!program_.alive()) return death();
  const std::vector<py::Owned<>> values = evaluate_all(locals, closure);
  for (std::size_t i = 0; i < program_.checks_.size(); ++i) {
    if (!asks(program_.checks_[i])) continue;
    const Operands operands = operands_of(i, values);
    if (!operands.present || !guards::holds(program_.checks_[i], operands.value, operands.other))
      return miss_of(i, operands);
  }
  return std::nullopt;
}

// Some guard of this value, or of one that it was reached by, has failed: its other guards may ask what only holds for
// the value that they expect.
bool GuardReport::is_doubted(std::uint32_t node, const std::vector<bool>& doubted) const {
  for (; node != GuardProgram::kNone; node = program_.nodes_[node].parent) {
    if (doubted[node]) return true;
  }
  return false;
}

// One between several values asks nothing new where one of these is missed for itself. The sizes of a tensor of another
// dtype can be asked for all the same, if it has them.
bool GuardReport::is_moot(std::size_t check, const Operands& operands, const std::vector<bool>& doubted) const {
  const auto all = wanted_by(check);
  return all && std::ranges::any_of(*all, [&](const GuardProgram::Wanted& wanted) {
           return is_doubted(wanted.node, doubted) && (wanted.layout == nullptr || !operands.present);
         });
}

std::vector<Miss> GuardReport::misses(PyObject* const* locals, PyObject* closure) const {
  const auto locked = program_.hold_.lock();
  std::vector<Miss> all;
  if (!program_.alive()) {
    all.push_back(death());
    return all;
  }
  const std::vector<py::Owned<>> values = evaluate_all(locals, closure);
  std::vector<bool> doubted(program_.nodes_.size());
  for (std::size_t i = 0; i < program_.checks_.size(); ++i) {
    const std::uint32_t node = program_.node_of_check_[i];
    if (!asks(program_.checks_[i]) || is_doubted(node, doubted)) continue;
    if (!all.empty() && traits(program_.checks_[i].kind).place == Place::Late) continue;
    const Operands operands = operands_of(i, values);
    if (operands.present && guards::holds(program_.checks_[i], operands.value, operands.other)) continue;
    if (is_moot(i, operands, doubted)) continue;
    all.push_back(miss_of(i, operands));
    if (node != GuardProgram::kNone) doubted[node] = true;
  }
  return all;
}

std::string GuardReport::explain(PyObject* const* locals, PyObject* closure) const {
  const std::optional<Miss> miss = first_miss(locals, closure);
  return miss ? miss->message() : std::string();
}

namespace {

// Holds for a moment what a program holds for good.
class Borrowed {
 public:
  PyObject* keep(PyObject* object) { return held_.emplace_back(py::Owned<>::share(object)).get(); }
  PyObject* keep_or_watch(PyObject* object) { return keep(object); }
  PyObject* keep_key(PyObject* object) { return keep(object); }

 private:
  std::vector<py::Owned<>> held_;
};

}  // namespace

Description describe(const Guard& guard, const PyObject* home) {
  Check check;
  check.kind = guard.kind, check.number = guard.number;
  check.tensor = guard.tensor.get(), check.condition = guard.condition.get();
  check.foresight = guard.foresight.get();
  const auto now = guard.kind == Kind::GLOBAL_STATE && !guard.state ? aten::GlobalState::now() : nullptr;
  check.state = now ? now.get() : guard.state.get();
  Borrowed borrowed;
  take_operand(check, guard, borrowed);
  GuardReport::Words words(home);
  Description d = words.kind_and_place(check, guard);
  words.add_text(d, check, guard);
  return d;
}

py::Owned<> as_dict(const Description& guard) {
  return py::take(Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:i,s:s}", "kind", guard.kind.c_str(), "source",
                                guard.source.c_str(), "source_kind", guard.source_kind.c_str(), "text",
                                guard.text.c_str(), "file", guard.file.c_str(), "line", guard.line, "operation",
                                guard.operation.c_str()));
}

void add_line(std::string& text, const Description& guard) {
  text += guard.kind;
  for (const std::string* part : {&guard.source, &guard.text}) {
    if (!part->empty()) text.append(" ").append(*part);
  }
  if (guard.file.empty()) return;
  text.append("  # ").append(guard.file).append(":").append(std::to_string(guard.line)).append(", ");
  text += guard.operation;
}

Description GuardReport::description_of(const Check& check, Words& words) const {
  const Guard& guard = program_.given_->guards[check.guard];
  Description d = words.kind_and_place(check, guard);
  if (program_.alive()) words.add_text(d, check, guard);  // else the objects that they name may be gone
  return d;
}

Description GuardReport::of(std::size_t check) const {
  Words words(program_.home_);
  return description_of(program_.checks_[check], words);
}

std::vector<Description> GuardReport::describe() const {
  const auto locked = program_.hold_.lock();
  Words words(program_.home_);
  std::vector<Description> all;
  for (const std::uint32_t check : program_.check_of_) {
    if (asks(program_.checks_[check])) all.push_back(description_of(program_.checks_[check], words));
  }
  return all;
}

std::vector<std::string> GuardReport::write_code(std::vector<PyObject*>& constants) const {
  std::unordered_map<PyObject*, std::size_t> number;
  const auto constant = [&](PyObject* object) -> std::string {
    if (object == Py_None || PyBool_Check(object) || PyUnicode_CheckExact(object) || PyLong_CheckExact(object)) {
      return py::repr_of(object);
    }
    const auto [place, fresh] = number.try_emplace(object, constants.size());
    if (fresh) constants.push_back(object);
    return std::string("C[").append(std::to_string(place->second)).append("]");
  };
  const source::RootText roots = [&](const Source* s) -> std::string {
    if (s->step != source::Step::Const && s->step != source::Step::DictItem) return {};
    return s->operand.get() == program_.globals_ ? std::string("G") : constant(s->operand.get());
  };
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < program_.check_of_.size(); ++i) {
    const Check& check = program_.checks_[program_.check_of_[i]];
    if (!asks(check)) continue;
    CodeText text;
    text.constant = constant;
    if (program_.given_->guards[i].source != nullptr)
      text.value = source::print(program_.given_->guards[i].source, roots);
    if (program_.given_->guards[i].other != nullptr)
      text.other = source::print(program_.given_->guards[i].other, roots);
    const auto all = wanted_by(program_.check_of_[i]);
    for (std::size_t at = 0; all && at < all->size(); ++at)
      text.values.push_back(source::print((*all)[at].source(program_), roots));
    parts.push_back(code_text(check, text));
  }
  return parts;
}

std::vector<std::string> GuardReport::code_parts() const {
  const auto locked = program_.hold_.lock();
  std::vector<PyObject*> constants;
  return program_.alive() ? write_code(constants) : std::vector<std::string>();
}

py::Owned<> GuardReport::constants() const {
  const auto locked = program_.hold_.lock();
  std::vector<PyObject*> objects;
  if (program_.alive()) write_code(objects);
  auto list = py::take(PyList_New(0));
  for (PyObject* object : objects) py::check(PyList_Append(list.get(), object));
  return list;
}

bool GuardReport::holds(std::size_t guard, PyObject* value) const noexcept {
  return program_.alive() && guard < program_.size() &&
         guards::holds(program_.checks_[program_.check_of_[guard]], value, nullptr);
}

}  // namespace pellucid::guards
