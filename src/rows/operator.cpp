// The module operator, and abs, round, pow, divmod: the same protocols as the opcodes.
#include <algorithm>

#include "bytecode/opcodes.h"
#include "protocols/arrays.h"
#include "protocols/numbers.h"
#include "protocols/torch_function.h"
#include "region/subclasses.h"
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

using region::names;

using K = Continuation::Kind;

template <int op>
Result binary(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return protocols::binary(t, args[0], args[1], op);
}

template <int op>
Result compare(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return protocols::compare(t, args[0], args[1], op);
}

template <int opcode>
Result unary(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  return protocols::unary(t, args[0], opcode);
}

Result getitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return protocols::subscript(t, args[0], args[1]);
}

Result setitem(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 3) return run_native(t, f, args);
  return protocols::as_none(protocols::store_subscript(t, args[0], args[1], args[2]));
}

Result contains(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return t.and_then(protocols::contains(t, args[0], args[1]), Continuation(K::Bool));
}

Result truth(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  return protocols::truth(t, args[0]);
}

Result not_(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 1) return run_native(t, f, args);
  Continuation invert(K::Bool);
  invert.number = 1;
  return t.and_then(protocols::truth(t, args[0]), std::move(invert));
}

template <bool same>
Result is(Interpreter& t, PyObject* f, Args args) {
  if (args.size() != 2) return run_native(t, f, args);
  return Result::boolean(protocols::is_same(t, args[0], args[1]) == same);
}

Result identity_index(Interpreter& t, PyObject* f, Args args) {
  if (only_positional(args, 1, 1) && protocols::is_index(t, args[0])) {
    PyObject* values[] = {reinterpret_cast<PyObject*>(&PyLong_Type), args[0]};
    return protocols::call_polyfill(t, "item_as", values);
  }
  return pure(t, f, args);
}

// abs, round, pow, divmod: of tensors a node, of numbers their value, of objects the dunder
Result numeric(Interpreter& t, PyObject* f, Args args) {
  bool tensor = false;
  for (PyObject* value : args.values) tensor |= region::cat_of(value) == Cat::Tensor;
  const bool by_class = args.size() >= 1 && protocols::is_answered(t, args[0]);
  if (tensor && !by_class) return t.region.recorder.torch_call(graph::Op::CallFunction, f, f, args);
  if (std::ranges::any_of(args.values, [](PyObject* value) { return region::cat_of(value) == Cat::Array; }))
    return protocols::array_call(t, graph::Op::CallFunction, f, args);
  if (by_class || (args.size() >= 1 && region::cat_of(args[0]) == Cat::Instance)) {
    auto name = py::take(PyObject_GetAttr(f, names().__name__));
    const std::string dunder = "__" + py::text_of(name.get()) + "__";
    if (t.region.lookups.type_lookup(Py_TYPE(args[0]), dunder.c_str()) != nullptr) {
      return protocols::special(t, args[0], dunder.c_str(), args.positional().subspan(1));
    }
  }
  return pure(t, f, args);
}

const Row rows[] = {
#define BINARY(number, name, symbol, function, ...) {"operator." function, binary<number>, true, true},
#define UNARY(opcode, symbol, function, ...) \
  {"operator." function, unary<static_cast<int>(bytecode::Opcode::opcode)>, true, true},
#define COMPARE(name, symbol, function, ...) {"operator." function, compare<Py_##name>, true, true},
#include "py/operators.def"
    {"operator.inv", unary<static_cast<int>(bytecode::Opcode::UNARY_INVERT)>},
    {"operator.getitem", getitem},
    {"operator.setitem", setitem},
    {"operator.contains", contains},
    {"operator.truth", truth, true, true},
    {"operator.not_", not_, true, true},
    {"operator.is_", is<true>, true, true},
    {"operator.is_not", is<false>, true, true},
    {"operator.index", identity_index},
    {"operator.abs", numeric},
    {"builtins.abs", numeric},
    {"builtins.round", numeric},
    {"builtins.pow", numeric},
    {"builtins.divmod", numeric},
};

}  // namespace

const std::span<const Row> kOperatorRows = rows;

}  // namespace pellucid::rows
