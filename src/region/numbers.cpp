#include "region/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <unordered_set>

#include "guards/condition.h"
#include "py/gil.h"
#include "region/body_audit.h"
#include "region/known_elements.h"
#include "region/region.h"
#include "region/snapshot.h"
#include "region/torch_module.h"
#include "symbolic/integers.h"
#include "symbolic/print.h"

namespace pellucid::region {
namespace {

PyObject* type_of(PyObject* value) { return reinterpret_cast<PyObject*>(Py_TYPE(value)); }

bool names(const symbolic::Expr* expr, const symbolic::Expr* symbol) {
  if (expr == symbol) return true;
  return std::ranges::any_of(expr->args, [&](const symbolic::Expr* arg) { return names(arg, symbol); });
}

}  // namespace

bool is_of_an_object(const Source* source) noexcept {
  for (; source != nullptr; source = source->base) {
    if (source->step == source::Step::InstanceAttr || source->step == source::Step::Member) return true;
  }
  return false;
}

PathHash hash_below(PathHash base, source::Step step, std::int64_t index, PyObject* operand) noexcept {
  const auto mix = [](PathHash a, PathHash b) { return (a ^ b) * 0x9e3779b97f4a7c15ULL + (a >> 29); };
  PathHash hash = mix(base, static_cast<PathHash>(step));
  hash = mix(hash, static_cast<PathHash>(index));
  if (operand == nullptr) return hash;
  // By its text: the names of live values ("f1_x") are made for each capture.
  if (PyUnicode_CheckExact(operand)) return mix(hash, static_cast<PathHash>(PyObject_Hash(operand)));
  if (!PyLong_CheckExact(operand)) return mix(hash, std::bit_cast<PathHash>(operand));
  int overflow = 0;
  return mix(hash, static_cast<PathHash>(PyLong_AsLongLongAndOverflow(operand, &overflow)));
}

PathHash hash_of_local(PyObject* name) noexcept { return hash_below(1, source::Step::Local, 0, name); }

PathHash hash_of(const Source* source) noexcept {
  if (source->step == source::Step::Local) return hash_of_local(source->operand.get());
  const PathHash base = source->base == nullptr ? 1 : hash_of(source->base);
  return hash_below(base, source->step, source->index, source->operand.get());
}

Numbers::Numbers(Region& region) : tuples(region), region_(region) { scope_->decider = this; }

Numbers::~Numbers() {
  scope_->decider = nullptr;
  std::exchange(scope_->decided_by, {}).clear();  // these fakes hold the scope
  for (const auto& number : all_) as_number(number.get())->numbers = nullptr;
}

py::Owned<> Numbers::new_number(PyObject* value) {
  auto made = py::take(number_type->tp_alloc(number_type, 0));
  Number* number = as_number(made.get());
  number->value = Py_NewRef(value);
  number->numbers = this;
  number->as_symbol = PyLong_CheckExact(value) != 0;
  all_.push_back(made.copy());
  return made;
}

bool Numbers::opens(PyObject* value, const Source* source, PathHash* path) const {
  symbolic::Value now;
  if (policy.history == nullptr || (policy.history->is_empty() && !policy.all_open)) return false;
  if (!guards::is_symbolic_value(value, &now) || !policy.opens(PyFloat_CheckExact(value) != 0)) return false;
  *path = hash_of(source);
  if (region_.unbacked.hints.setup.closes(*path)) return false;
  const SeenNumber* seen = policy.history->find(*path);
  if (seen == nullptr) return policy.all_open && !is_of_an_object(source);
  return seen->opens_for(now.bits(), now.type == symbolic::Type::Float, policy.is_last);
}

const symbolic::Expr* Numbers::new_symbol(const symbolic::Value& hint, const Source* source, PathHash path,
                                          std::int64_t least, std::int64_t most) {
  const symbolic::Expr* made = space().symbol(hint, least, most);
  symbols_.push_back({source, made, path, {hint.bits(), hint.type == symbolic::Type::Float, true}});
  return made;
}

py::Owned<> Numbers::read(PyObject* value, const Source* source) {
  for (const auto& audit : region_.audits) audit->note_read(source);
  if (is_number(value)) return py::Owned<>::share(value);
  if (source->step != source::Step::Const && OpenTuples::is_one(value)) return tuples.read(value, source);
  // A NaN is found in containers by its identity.
  const bool is_one = PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) ||
                      (PyFloat_CheckExact(value) && !std::isnan(PyFloat_AS_DOUBLE(value)));
  if (source->step == source::Step::Const || !is_one) {
    region_.provenance.note_read(value, source);
    return py::Owned<>::share(value);
  }
  const auto id = static_cast<std::size_t>(source->id);
  if (id >= by_source_.size()) by_source_.resize(std::max(id + 1, 2 * by_source_.size()));
  PyObject*& known = by_source_[id];
  if (known != nullptr) return py::Owned<>::share(known);
  auto made = new_number(value);
  known = made.get();
  Number* number = as_number(known);
  number->source = source;
  number->of_floats = number->as_tensor = PyFloat_CheckExact(value) != 0;
  PathHash path = 0;
  if (!opens(value, source, &path)) return made;
  symbolic::Value hint;
  guards::is_symbolic_value(value, &hint);
  number->expr = new_symbol(hint, source, path, std::numeric_limits<std::int64_t>::min());
  region_.provenance.guard(Kind::NUMBER_MATCH, source, py::Owned<>::share(type_of(value)));
  return made;
}

py::Owned<> Numbers::drawn(PyObject* value, const Source* source, std::int64_t least, std::int64_t most) {
  auto made = new_number(value);
  region_.provenance.keep(made.get());
  Number* number = as_number(made.get());
  number->source = source;
  number->as_symbol = false;
  constexpr std::int64_t kExact = std::int64_t{1} << 53;  // floats are as large as ints up to here
  number->of_floats = number->as_tensor = PyFloat_CheckExact(value) != 0 || (least >= -kExact && most <= kExact);
  symbolic::Value hint;
  guards::is_symbolic_value(value, &hint);
  number->expr = new_symbol(region_.unbacked.hints.next(hint, least, most), source, 0, least, most);
  symbols_.back().drawn = true;
  region_.unbacked.add(number->expr, true);
  // No draw gives another one, so that nothing need check it.
  if (hint.type == symbolic::Type::Float)
    (void)space().decide(space().nodes().make(symbolic::Op::Finite, number->expr), here());
  const auto id = static_cast<std::size_t>(source->id);
  if (id >= by_source_.size()) by_source_.resize(std::max(id + 1, 2 * by_source_.size()));
  by_source_[id] = made.get();
  return made;
}

namespace {

bool holds_number(PyObject* container) {
  const auto is_one = [](PyObject* item) { return PyLong_CheckExact(item) || PyFloat_CheckExact(item); };
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Check(container) && PyDict_Next(container, &position, &key, &value) != 0) {
    if (is_one(value)) return true;
  }
  for (Py_ssize_t i = 0; PyTuple_Check(container) && i < PyTuple_GET_SIZE(container); ++i) {
    if (is_one(PyTuple_GET_ITEM(container, i))) return true;
  }
  return false;
}

}  // namespace

py::Owned<> Numbers::read_rest(PyObject* container, const Source* source) {
  if (!holds_number(container)) {
    region_.provenance.note_read(container, source);
    return py::Owned<>::share(container);
  }
  region_.provenance.keep(container);
  auto& table = region_.capture->sources;
  if (PyDict_Check(container)) {
    auto keys = py::take(PySequence_Tuple(container));
    region_.provenance.guard(Kind::DICT_KEYS, source, std::move(keys));
    auto made = py::take(PyDict_New());
    for (const auto& [key, value] : entries_now(container))
      py::check(PyDict_SetItem(made.get(), key.get(), read(value.get(), table.dict_item(source, key.get())).get()));
    return made;
  }
  region_.provenance.guard(Kind::LENGTH, source, {}, PyTuple_GET_SIZE(container));
  auto made = py::take(PyTuple_New(PyTuple_GET_SIZE(container)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); ++i)
    PyTuple_SET_ITEM(made.get(), i, read(PyTuple_GET_ITEM(container, i), table.item(source, i)).release());
  return made;
}

void Numbers::guard_type(PyObject* object) {
  const Number* number = as_number(object);
  if (number->source == nullptr || number->expr != nullptr || number->settled) return;
  region_.provenance.guard(Kind::TYPE_MATCH, number->source, py::Owned<>::share(type_of(number->value)));
}

namespace {

template <class Visit>
void each_operand(PyObject* arguments, Visit&& visit) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    PyObject* operand = PyTuple_GET_ITEM(arguments, i);
    if (PyTuple_CheckExact(operand))
      each_operand(operand, visit);
    else if (is_number(operand))
      visit(operand);
  }
}

}  // namespace

PyObject* Numbers::plain(PyObject* object) {
  if (!is_number(object)) return object;
  Number* number = as_number(object);
  if (number->settled) return number->value;
  if (number->of_tensor) region_.late_items.refuse(object);
  ++closed_;
  if (number->function != nullptr && number->expr == nullptr) {
    each_operand(number->arguments, [&](PyObject* operand) { (void)plain(operand); });
    number->settled = true;
    return number->value;
  }
  // A number that only the graph knows stays open: what is behind the break gets it from the graph.
  if (number->expr != nullptr) region_.unbacked.refuse_if_named(number->expr);
  number->settled = true;
  if (number->expr == nullptr) {
    region_.provenance.note_read(number->value, number->source);
    if (policy.history != nullptr) tuples.note_closed(number->value, hash_of(number->source));
    return number->value;
  }
  if (number->source != nullptr) symbols_[number->expr->operation.symbol].seen.pinned = true;
  (void)space().fix(number->expr, here());
  return number->value;
}

const symbolic::Expr* Numbers::expr_of(PyObject* object) {
  if (is_number(object)) {
    const Number* number = as_number(object);
    if (is_open(object)) {
      if (number->expr != nullptr && region_.unbacked.any()) region_.unbacked.expect_finite(number->expr);
      return number->expr;
    }
    object = plain(object);
  }
  if (object == Py_True || object == Py_False) return space().constant(symbolic::Value::of(object == Py_True ? 1 : 0));
  if (PyFloat_CheckExact(object)) return space().constant(symbolic::Value::real(PyFloat_AS_DOUBLE(object)));
  symbolic::Value value;
  return PyLong_CheckExact(object) && guards::is_symbolic_value(object, &value) ? space().constant(value) : nullptr;
}

namespace {

// Python's operations on floats that are one rounding of IEEE's.
bool is_exact_on_tensors(PyObject* function) {
  static const std::unordered_set<PyObject*> functions = [] {
    std::unordered_set<PyObject*> made;
    for (const char* name : {"add", "sub", "mul", "truediv", "neg"})
      made.insert(py::import_attr("operator", name).release());
    return made;
  }();
  return functions.contains(function);
}

// Torch's symbols round the quotient of two floats before its floor is taken (1 // 0.1 is 10 then), and have no
// remainder of floats.
bool is_exact_on_symbols(PyObject* function, PyObject* arguments) {
  static PyObject* const floordiv = py::import_attr("operator", "floordiv").release();
  static PyObject* const mod = py::import_attr("operator", "mod").release();
  if (function != floordiv && function != mod) return true;
  const auto is_float = [](PyObject* operand) { return PyFloat_CheckExact(value_at_hand(operand)); };
  return !is_float(PyTuple_GET_ITEM(arguments, 0)) && !is_float(PyTuple_GET_ITEM(arguments, 1));
}

}  // namespace

py::Owned<> Numbers::computed(PyObject* function, py::Owned<> arguments, py::Owned<> value,
                              const symbolic::Expr* expr) {
  if (expr != nullptr && expr->is_constant()) return value;
  // A late value is one of any int of 64 bits and finite float: for those the function does not raise.
  if (expr == nullptr) {
    each_operand(arguments.get(), [&](PyObject* operand) {
      const Number* number = as_number(operand);
      symbolic::Value now;
      if (number->source != nullptr && number->expr == nullptr && guards::is_symbolic_value(number->value, &now))
        region_.provenance.guard(Kind::NUMBER_MATCH, number->source, py::Owned<>::share(type_of(number->value)));
    });
  }
  constexpr int kDeepest = 500;  // a loop that went on for so long is a region of its own for each value
  int depth = 0;
  bool of_floats = false, of_tensor = false, as_symbol = is_exact_on_symbols(function, arguments.get()),
       as_tensor = is_exact_on_tensors(function);
  each_operand(arguments.get(), [&](PyObject* operand) {
    const Number* number = as_number(operand);
    depth = std::max(depth, number->depth + 1);
    of_floats |= number->of_floats;
    of_tensor |= number->of_tensor;
    as_symbol &= number->as_symbol;
    as_tensor &= number->as_symbol || number->as_tensor;
  });
  auto made = new_number(value.get());
  region_.provenance.keep(made.get());
  Number* number = as_number(made.get());
  number->expr = expr;
  number->function = Py_NewRef(function);
  number->arguments = arguments.release();
  number->depth = depth;
  number->of_floats = of_floats;
  number->of_tensor = of_tensor;
  number->as_symbol = as_symbol;
  number->as_tensor = of_floats && as_tensor && PyFloat_CheckExact(value.get()) != 0;
  return depth < kDeepest ? std::move(made) : py::Owned<>::share(plain(made.get()));
}

// Torch asks here while it runs without the GIL: what counts references takes it.
std::uint32_t Numbers::here() {
  const Frame* frame = region_.top;
  PyCodeObject* code = frame == nullptr ? nullptr : frame->code.get();
  const int offset = frame == nullptr ? guards::Why{}.offset : frame->at;
  // Most of what is asked at a place is proved, and names no place.
  const bool again = !places_.empty() && places_.back().code.get() == code && places_.back().offset == offset &&
                     places_.back().operation == region_.doing;
  if (!again) add_place(code, offset, region_.doing);
  return static_cast<std::uint32_t>(places_.size() - 1);
}

void Numbers::add_place(PyCodeObject* code, int offset, std::string operation) {
  const py::Gil gil;
  guards::Why why;
  why.code = py::Owned<PyCodeObject>::share(code);
  why.offset = offset;
  why.operation = std::move(operation);
  places_.push_back(std::move(why));
}

// torch's optimizers read tensors of one element only to compute how far they step, and its batch norms to compute a
// momentum: what they ask is a number in the graph, whatever is said of item() in the program.
bool asks_to_compute(const Frame* frame) {
  const py::Gil gil;  // torch asks without it
  while (frame != nullptr && frame->hidden) frame = frame->back.get();
  return frame != nullptr && (is_of_torch_optim(frame->code.get()) || is_of_batch_norms(frame->code.get()));
}

namespace {

// A backend that runs graphs as they are has all that Python has: sizes that are found are numbers like any other.
bool takes(const Region& region, aten::GraphGives what) {
  const NumberPolicy& policy = region.numbers.policy;
  const bool is_number = what == aten::GraphGives::Number || policy.runs_as_captured();
  if (!is_number) return policy.dynamic_output_shapes;
  if (policy.scalar_outputs || region.unbacked.in_key) return true;
  const bool may = policy.graph_numbers != GraphNumbers::None && policy.value_checks;
  return may && what == aten::GraphGives::Number && asks_to_compute(region.top);
}

}  // namespace

bool Numbers::takes_items() const { return takes(region_, aten::GraphGives::Number); }

const symbolic::Expr* Numbers::given_by_graph(aten::GraphGives what, symbolic::Value hint, std::int64_t least,
                                              std::int64_t most, PyObject* of) {
  if (!takes(region_, what)) return nullptr;
  hint = region_.unbacked.hints.next(hint, least, most);
  // What a compiler that traces the graph again does not know, the graph asserts where it is needed.
  if (what == aten::GraphGives::Size && scope_->is_traced_again) least = std::min<std::int64_t>(least, 0);
  const symbolic::Expr* made = new_symbol(hint, nullptr, 0, least, most);
  region_.unbacked.add(made);
  if (of != nullptr) scope_->decided_by.emplace(made, py::Owned<>::share(of));
  return made;
}

py::Owned<> Numbers::elements_of(aten::GraphGives what, PyObject* fake) {
  if (takes(region_, what) && !goes_by_elements(region_)) return {};
  return known_elements(region_, fake);
}

std::string Numbers::name_of(std::uint32_t symbol) const {
  const Source* source = symbols_[symbol].source;
  return source == nullptr ? "u" + std::to_string(symbol) : source::print(source);
}

void Numbers::note_refusal(const GraphBreak& stop) { region_.unbacked.note_refusal(stop); }

bool Numbers::decide(const symbolic::Expr* condition) {
  constexpr std::size_t kMost = 256;
  if (region_.unbacked.names(condition) && space().prove(condition) == symbolic::Proof::Unknown)
    region_.unbacked.refuse_if_program_asks(condition);
  const bool holds = space().decide(condition, here());
  if (space().decisions().size() >= kMost && !settling_) {
    const py::Gil gil;
    settle_all();
  }
  return holds;
}

void Numbers::require(const symbolic::Expr* condition) {
  decide(condition);
  note_pinned(condition);
}

symbolic::Value Numbers::fix(const symbolic::Expr* number, const char* who) {
  region_.unbacked.refuse_if_named(number);
  const guards::Why& asked = places_[here()];
  add_place(asked.code.get(), asked.offset, std::string("needs a plain number in ") + who);
  const symbolic::Value value = space().fix(number, static_cast<symbolic::Who>(places_.size() - 1));
  note_pinned(number);
  return value;
}

// A symbol that can have one value only, for something that is no branch of the program, has a region for each value
// anyway: it is a value again from the next capture on.
void Numbers::note_pinned(const symbolic::Expr* expr) {
  if (expr->is(symbolic::Op::Symbol) && space().simplify(expr)->is_constant()) {
    const std::uint32_t symbol = expr->operation.symbol;
    if (!std::exchange(symbols_[symbol].seen.pinned, true)) pinned_.push_back(symbol);
  }
  for (const symbolic::Expr* arg : expr->args) note_pinned(arg);
}

void DecisionMark::take_back(Numbers& numbers) const {
  if (numbers.closed_ != closed_) return;
  numbers.space().truncate(decisions_);
  for (; numbers.pinned_.size() > pinned_; numbers.pinned_.pop_back())
    numbers.symbols_[numbers.pinned_.back()].seen.pinned = false;
}

// A loop that counts an open number down would decide at every turn: each count has a region of its own anyway.
void Numbers::settle_all() {
  region_.doing = "decides by numbers that change too often";
  settling_ = true;
  for (const Symbol& symbol : symbols_) {
    if (!symbol.is_input() || space().simplify(symbol.expr)->is_constant()) continue;
    (void)space().fix(symbol.expr, here());
    note_pinned(symbol.expr);
  }
  const std::size_t count = all_.size();
  for (const bool is_read : {true, false}) {  // what is computed from them is known with them
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* number = all_[i].get();
      if (is_open(number) && (as_number(number)->source != nullptr) == is_read &&
          !region_.unbacked.names(as_number(number)->expr))
        plain(number);
    }
  }
  settling_ = false;
}

// A size that the program marked as one that changes has to stay open.
void Numbers::refuse_constant_marks() {
  for (const Symbol& symbol : symbols_) {
    if (!symbol.must_stay_open || !space().simplify(symbol.expr)->is_constant()) continue;
    // The decision that left it one value: the first that names it and says so.
    for (const symbolic::Decision& decision : space().decisions()) {
      if (!names(decision.condition, symbol.expr)) continue;
      const auto name = [&](std::uint32_t number) { return name_of(number); };
      throw_constraint_violation(symbol.source, symbol.expr, symbolic::print(decision.condition, name),
                                 places_[decision.who]);
    }
  }
}

namespace {

template <class SourceOf>
guards::Guard guard_of(std::shared_ptr<guards::Condition> condition, std::int64_t number, SourceOf&& source_of) {
  guards::Guard guard;
  guard.kind = Kind::CONDITION;
  guard.operand = py::take(PyTuple_New(static_cast<Py_ssize_t>(condition->symbols.size())));
  for (std::size_t i = 0; i < condition->symbols.size(); ++i) {
    const Source* source = source_of(condition->symbols[i]);
    condition->names.push_back(source::print(source));
    PyTuple_SET_ITEM(guard.operand.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLong(source->id)).release());
  }
  guard.number = number;
  guard.condition = std::move(condition);
  return guard;
}

}  // namespace

// The ints that have no one value, and the guard that the backend may fill.
void Numbers::hand_over_open(std::int64_t number) {
  std::vector<std::uint32_t> open;
  for (const Symbol& symbol : symbols_) {
    if (symbol.is_input() && symbol.expr->type == symbolic::Type::Int && !space().simplify(symbol.expr)->is_constant())
      open.push_back(symbol.expr->operation.symbol);
  }
  if (open.empty() && !region_.unbacked.any_of_graph()) return;
  OpenNumbers& handed = region_.capture->open;
  handed.scope = scope_;
  for (const Symbol& symbol : symbols_)
    handed.symbols.push_back(
        {symbol.is_input() ? symbol.source : nullptr, symbol.expr, symbol.path, symbol.must_stay_open});
  if (open.empty()) return;
  handed.of_backend = std::make_shared<guards::Condition>(guards::Condition::between(std::move(open)));
  guards::Guard guard = guard_of(handed.of_backend, number, [&](std::uint32_t i) { return symbols_[i].source; });
  guard.why.code = py::Owned<PyCodeObject>::share(region_.capture->code.get());
  guard.why.offset = 0;
  guard.why.operation = "is compiled by the backend";
  region_.capture->guards.add(std::move(guard));
}

void Numbers::finish() {
  for (const auto& number : all_) {
    guard_type(number.get());
    // One that the decisions leave one value is a constant of the region.
    if (is_open(number.get()) && space().simplify(as_number(number.get())->expr)->is_constant())
      as_number(number.get())->settled = true;
  }
  std::int64_t number = 0;
  refuse_constant_marks();
  for (const symbolic::Decision& decision : space().decisions()) {
    if (region_.unbacked.names(decision.condition)) {  // the graph checks it
      if (Ahead::has_all(region_.unbacked, decision.condition))
        region_.foresight.add(decision.condition, {places_[decision.who].code.copy(), places_[decision.who].offset,
                                                   places_[decision.who].operation});
      continue;
    }
    guards::Guard guard = guard_of(std::make_shared<guards::Condition>(guards::Condition::of(decision.condition)),
                                   number++, [&](std::uint32_t i) { return symbols_[i].source; });
    guard.why.code = py::Owned<PyCodeObject>::share(places_[decision.who].code.get());
    guard.why.offset = places_[decision.who].offset;
    guard.why.operation = places_[decision.who].operation;
    region_.capture->guards.add(std::move(guard));
  }
  for (const Symbol& symbol : symbols_) {
    if (symbol.is_input()) region_.capture->numbers.emplace_back(symbol.path, symbol.seen);
  }
  region_.foresight.finish();
  if (policy.graph_numbers == GraphNumbers::Ints) hand_over_open(number);
}

}  // namespace pellucid::region
