#include "region/open_numbers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "symbolic/conditions.h"
#include "symbolic/operations.h"
#include "symbolic/print.h"

namespace pellucid::region {
namespace {

using symbolic::Expr;
using symbolic::Op;
using symbolic::Space;
using symbolic::Type;

constexpr symbolic::Who kBackend = 0;

// A comparison of ints that are read: what torch can be told without its deciding more than that.
bool is_of_ints(const Expr* expr, const std::vector<OpenNumbers::Symbol>& symbols) {
  const auto all = [&] {
    return std::ranges::all_of(expr->args, [&](const Expr* arg) { return is_of_ints(arg, symbols); });
  };
  switch (expr->op()) {
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
    case Op::Sum:
    case Op::Product:
    case Op::FloorDiv:
    case Op::Mod:
    case Op::Min:
    case Op::Max:
      return all();
    case Op::Constant:
      return expr->type == Type::Int;
    case Op::Symbol:
      return expr->type == Type::Int && symbols[expr->operation.symbol].source != nullptr;
    default:
      return false;
  }
}

py::Owned<> end_of(symbolic::Wide end) {
  if (!symbolic::kInt64.contains(end)) return py::Owned<>::share(Py_None);
  return py::take(PyLong_FromLongLong(static_cast<long long>(end)));
}

// Expressions in prefix form.
class Reader {
 public:
  Reader(Space& space, const std::vector<OpenNumbers::Symbol>& symbols) : space_(space), symbols_(symbols) {}

  // Null: it has no such words here.
  const Expr* number(PyObject* form) const {
    if (symbolic::Value value; guards::is_symbolic_value(form, &value)) return space_.constant(value);
    if (!PyTuple_CheckExact(form)) return nullptr;
    const std::string_view word = word_of(form);
    if (word == "s") return symbols_.at(PyLong_AsSize_t(PyTuple_GET_ITEM(form, 1))).expr;
    using symbolic::Binary;
    using symbolic::Unary;
    static const std::unordered_map<std::string_view, Unary> functions = {
        {"float", Unary::ToFloat}, {"int", Unary::ToInt}, {"floor", Unary::Floor}, {"ceil", Unary::Ceil}};
    if (const auto function = functions.find(word); function != functions.end()) {
      const Expr* arg = number(PyTuple_GET_ITEM(form, 1));
      return arg == nullptr ? nullptr : symbolic::unary(space_, function->second, arg, kBackend);
    }
    static const std::unordered_map<std::string_view, Binary> operations = {
        {"+", Binary::Add},     {"*", Binary::Mul},  {"//", Binary::FloorDiv}, {"%", Binary::Mod},
        {"/", Binary::TrueDiv}, {"**", Binary::Pow}, {"min", Binary::Min},     {"max", Binary::Max}};
    const auto operation = operations.find(word);
    if (operation == operations.end()) return nullptr;
    return folded(form, &Reader::number, [&](const Expr* a, const Expr* b) {
      return symbolic::binary(space_, operation->second, a, b, kBackend);
    });
  }

  const Expr* condition(PyObject* form) const {
    if (form == Py_True) return space_.nodes().truth(true);
    if (!PyTuple_CheckExact(form)) return nullptr;
    const std::string_view word = word_of(form);
    if (word == "not") {
      const Expr* arg = condition(PyTuple_GET_ITEM(form, 1));
      return arg == nullptr ? nullptr : symbolic::negation(space_.nodes(), arg);
    }
    if (word == "and" || word == "or") {
      return folded(form, &Reader::condition, [&](const Expr* a, const Expr* b) {
        return word == "and" ? symbolic::conjunction(space_.nodes(), a, b)
                             : symbolic::disjunction(space_.nodes(), a, b);
      });
    }
    using symbolic::Comparison;
    static const std::unordered_map<std::string_view, Comparison> comparisons = {
        {"<", Comparison::Lt},  {"<=", Comparison::Le}, {"==", Comparison::Eq},
        {"!=", Comparison::Ne}, {">", Comparison::Gt},  {">=", Comparison::Ge}};
    const auto comparison = comparisons.find(word);
    if (comparison == comparisons.end()) return nullptr;
    return folded(form, &Reader::number,
                  [&](const Expr* a, const Expr* b) { return symbolic::compare(space_, comparison->second, a, b); });
  }

 private:
  static std::string_view word_of(PyObject* form) {
    Py_ssize_t size = 0;
    const char* word = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(form, 0), &size);
    if (word == nullptr) py::throw_pending();
    return {word, static_cast<std::size_t>(size)};
  }
  template <class Join>
  const Expr* folded(PyObject* form, const Expr* (Reader::*read)(PyObject*) const, Join&& join) const {
    const Expr* all = nullptr;
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(form); ++i) {
      const Expr* next = (this->*read)(PyTuple_GET_ITEM(form, i));
      if (next == nullptr) return nullptr;
      all = i == 1 ? next : join(all, next);
      if (all == nullptr) return nullptr;
    }
    return all;
  }

  Space& space_;
  const std::vector<OpenNumbers::Symbol>& symbols_;
};

// What an expression is replaced by may name a number that has one value by now.
const Expr* simplest(Space& space, const Expr* expr) {
  constexpr int kMostTurns = 8;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const Expr* const before = expr;
    expr = space.simplify(before);
    if (expr == before) break;
  }
  return expr;
}

bool has_one_value(Space& space, const Expr* condition) {
  if (condition->is(Op::Symbol)) return space.simplify(condition)->is_constant();
  return std::ranges::all_of(condition->args, [&](const Expr* part) { return has_one_value(space, part); });
}

bool reads_all(const Expr* condition, const std::vector<std::uint32_t>& symbols) {
  if (condition->is(Op::Symbol)) return std::ranges::find(symbols, condition->operation.symbol) != symbols.end();
  return std::ranges::all_of(condition->args, [&](const Expr* part) { return reads_all(part, symbols); });
}

}  // namespace

py::Owned<> OpenNumbers::described() const {
  Space& space = scope->space;
  auto rows = py::take(PyList_New(0)), conditions = py::take(PyList_New(0));
  for (const Symbol& symbol : symbols) {
    if (symbol.expr->type != Type::Int) {
      if (symbol.source != nullptr) continue;
      auto row = py::take(
          Py_BuildValue("(IOdOO)", symbol.expr->operation.symbol, Py_None, symbol.expr->hint.f, Py_None, Py_None));
      py::check(PyList_Append(rows.get(), row.get()));
      continue;
    }
    const symbolic::Range range = space.range(symbol.expr);
    auto row = py::take(Py_BuildValue("(IsLNN)", symbol.expr->operation.symbol,
                                      symbol.source == nullptr ? nullptr : source::print(symbol.source).c_str(),
                                      static_cast<long long>(symbol.expr->hint.i), end_of(range.least).release(),
                                      end_of(range.most).release()));
    py::check(PyList_Append(rows.get(), row.get()));
  }
  for (const symbolic::Decision& decision : space.decisions()) {
    if (!is_of_ints(decision.condition, symbols)) continue;
    const auto name = [](std::uint32_t symbol) { return "s" + std::to_string(symbol); };
    py::check(PyList_Append(conditions.get(), py::str(symbolic::print(decision.condition, name)).get()));
  }
  return py::take(PyTuple_Pack(2, rows.get(), conditions.get()));
}

// One that has one value by the branches that this call takes may have many behind others: the backend did not ask.
std::vector<const OpenNumbers::Symbol*> OpenNumbers::require(PyObject* conditions) {
  Space& space = scope->space;
  const auto has_one_number = [&](std::uint32_t number) {
    const Expr* symbol = symbols[number].expr;
    return space.simplify(symbol)->is_constant() || space.range(symbol).is_one_number();
  };
  std::vector<std::uint32_t> may_be_fixed;
  std::ranges::copy_if(of_backend->symbols, std::back_inserter(may_be_fixed),
                       [&](std::uint32_t number) { return symbols[number].must_stay_open || !has_one_number(number); });
  const std::size_t mark = space.mark();
  const Reader reader(space, symbols);
  bool known = PyList_CheckExact(conditions);
  for (Py_ssize_t i = 0; known && i < PyList_GET_SIZE(conditions); ++i) {
    const Expr* condition = reader.condition(PyList_GET_ITEM(conditions, i));
    known = condition != nullptr && condition->hint.is_true();
    // The guard reads the symbols that had no one value when the capture ended: of the others it is known already.
    if (known) space.decide(simplest(space, condition), kBackend);
  }
  // What has become of a condition may name a number that the guard does not read: nothing could check it.
  const auto is_read = [&](const symbolic::Decision& decision) {
    return reads_all(decision.condition, of_backend->symbols);
  };
  known = known && std::ranges::all_of(space.decisions().subspan(mark), is_read);
  if (!known) {
    for (const std::uint32_t number : of_backend->symbols) (void)space.fix(symbols[number].expr, kBackend);
  }
  std::vector<const Symbol*> fixed;
  for (const std::uint32_t number : may_be_fixed) {
    if (has_one_number(number)) fixed.push_back(&symbols[number]);
  }
  std::vector<const Expr*> asked;
  for (const symbolic::Decision& decision : space.decisions().subspan(mark)) {
    // Where all numbers of a condition have one value, it has been true of these.
    if (is_read(decision) || !has_one_value(space, decision.condition)) asked.push_back(decision.condition);
  }
  of_backend->complete(asked);
  return fixed;
}

void throw_constraint_violation(const source::Source* size, const Expr* symbol, const std::string& condition,
                                const guards::Why& why) {
  const auto make = py::import_attr("pellucid.errors", "constraint_violation");
  const auto error = py::take(PyObject_CallFunction(
      make.get(), "sLsOis", source::print(size).c_str(), static_cast<long long>(symbol->hint.i), condition.c_str(),
      why.code ? why.code.object() : Py_None, why.offset, why.operation.c_str()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  py::throw_pending();
}

PyObject* symbolic_twin(PyObject* function) {
  static const std::unordered_map<PyObject*, PyObject*> twins = [] {
    std::unordered_map<PyObject*, PyObject*> made;
    const auto add = [&](const char* module, const char* name, const char* twin) {
      made.emplace(py::import_attr(module, name).release(), py::import_attr("torch", twin).release());
    };
    add("builtins", "min", "sym_min");
    add("builtins", "max", "sym_max");
    add("builtins", "int", "sym_int");
    add("builtins", "float", "sym_float");
    add("math", "trunc", "sym_int");
    for (const char* name : {"sqrt", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"})
      add("math", name, (std::string("_sym_") + name).c_str());
    return made;
  }();
  const auto found = twins.find(function);
  return found == twins.end() ? function : found->second;
}

}  // namespace pellucid::region
