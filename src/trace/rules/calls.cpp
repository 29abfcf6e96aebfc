// Calls, returns, functions, iteration and generators.
#include <cstdlib>

#include "bytecode/opcodes.h"
#include "py/iterators.h"
#include "trace/rules/rules.h"

namespace pellucid::trace {

using K = Continuation::Kind;
using region::names;

Next do_PRECALL(Executor&, Frame&, int) { return Next::Go; }
Next do_KW_NAMES(Executor&, Frame& f, int arg) {
  f.kwnames = py::Owned<>::share(PyTuple_GET_ITEM(f.code->co_consts, arg));
  return Next::Go;
}

namespace {

// range(0, n, 4) of a loop: each turn asks whether there is one more, so the number of turns is fixed, and n is not. By
// steps of 1 that would be the same.
bool is_range_with_steps(const Frame& frame, PyObject* callable, std::span<PyObject* const> values) {
  if (callable != reinterpret_cast<PyObject*>(&PyRange_Type) || values.size() != 3) return false;
  if (frame.decoded->at(frame.next).op != bytecode::Opcode::GET_ITER || !PyLong_CheckExact(values[2])) return false;
  const auto is_int = [](PyObject* value) { return region::is_open_int(value) || PyLong_CheckExact(value); };
  int overflow = 0;
  const long step = PyLong_AsLongAndOverflow(values[2], &overflow);
  return overflow == 0 && std::abs(step) > 1 && is_int(values[0]) && is_int(values[1]) &&
         (region::is_open(values[0]) || region::is_open(values[1]));
}

}  // namespace

Next do_CALL(Executor& ex, Frame& f, int arg) {
  const auto count = static_cast<std::size_t>(arg);
  const std::size_t base = f.stack.size() - count - 2;
  const bool is_method = f.stack[base].get() != nullptr;
  auto callable = py::Owned<>::share(is_method ? f.stack[base].get() : f.stack[base + 1].get());
  std::vector<PyObject*> values;
  values.reserve(count + 1);
  for (std::size_t i = base + (is_method ? 1 : 2); i < f.stack.size(); ++i) values.push_back(f.stack[i].get());
  const bool steps = !f.kwnames && is_range_with_steps(f, callable.get(), values);
  Result r = steps ? protocols::call_polyfill(ex, "range_with_steps", values)
                   : protocols::call(ex, callable.get(), Args{values, f.kwnames.get()});
  f.kwnames = {};
  drop_below(f, r, count + 2);
  return push(f, std::move(r));
}

Next do_CALL_FUNCTION_EX(Executor& ex, Frame& f, int arg) {
  const std::size_t with_kwargs = arg & 1;
  auto kwargs = py::Owned<>::share(with_kwargs ? ex.region.shadows.original(peek(f, 0)) : nullptr);
  auto positional = py::Owned<>::share(peek(f, with_kwargs));
  auto callable = py::Owned<>::share(peek(f, with_kwargs + 1));
  if (Py_TYPE(positional.get())->tp_iter == nullptr && !PySequence_Check(positional.get())) {
    const Cat cat = region::cat_of(callable.get());
    if (cat == Cat::Instance || cat == Cat::Other)  // its __str__ would be asked
      throw GraphBreak(Reason::BadArguments, {{"callee", "a call with * of what is no iterable"}});
    const std::string name = py::text_of(py::take(_PyObject_FunctionStr(callable.get())).get());
    ex.raise(PyExc_TypeError,
             name + " argument after * must be an iterable, not " + Py_TYPE(positional.get())->tp_name);
    return Next::Raise;
  }
  Result r = protocols::call_ex(ex, callable.get(), positional.get(), kwargs.get());
  drop_below(f, r, with_kwargs + 3);  // callable, args, kwargs and the NULL below
  return push(f, std::move(r));
}

Next do_RETURN_VALUE(Executor& ex, Frame& f, int) { return ex.return_value(f); }
Next do_RETURN_GENERATOR(Executor& ex, Frame& f, int) { return ex.return_generator(f); }
Next do_YIELD_VALUE(Executor& ex, Frame& f, int) { return ex.yield_value(f); }

Next do_GET_ITER(Executor& ex, Frame& f, int) {
  auto iterable = py::Owned<>::share(peek(f, 0));
  Result r = protocols::iterate(ex, iterable.get());
  drop_below(f, r, 1);
  return push(f, std::move(r));
}
Next do_GET_YIELD_FROM_ITER(Executor& ex, Frame& f, int arg) {
  if (PyCoro_CheckExact(peek(f, 0))) refuse(bytecode::Opcode::GET_YIELD_FROM_ITER);
  return do_GET_ITER(ex, f, arg);
}
namespace {
void note_loop(const Frame& frame, PyObject* iterator) {
  if (!region::is_generator(iterator)) return;
  auto* generator = reinterpret_cast<region::TracedGenerator*>(iterator);
  generator->loop = &frame;
  generator->loop_slot = frame.stack.size() - 1;
}
}  // namespace

Next do_FOR_ITER(Executor& ex, Frame& f, int arg) {
  PyObject* iterator = peek(f, 0);
  const bool outside = ex.region.provenance.is_outside(iterator);
  const py::IteratorKind kind = outside ? py::iterator_kind(iterator) : py::IteratorKind::Unknown;
  const bool calls = kind == py::IteratorKind::Map || kind == py::IteratorKind::Filter;
  if (region::cat_of(iterator) == Cat::Iterator && !calls) {
    // The common case without a StopIteration object.
    ex.region.doing = "advances an iterator";
    auto value =
        outside ? ex.region.iterators.next(iterator) : py::Owned<>::steal(Py_TYPE(iterator)->tp_iternext(iterator));
    if (value) {
      f.stack.push_back(std::move(value));
      return Next::Go;
    }
    if (PyErr_Occurred() != nullptr) py::throw_pending();
    drop(f, 1);
    f.next += 2 * arg;
    return Next::Go;
  }
  note_loop(f, iterator);
  Continuation for_iter(K::ForIter);
  for_iter.number = f.next + 2 * arg;
  auto held = py::Owned<>::share(iterator);
  return push(f, ex.and_then(protocols::next(ex, held.get()), std::move(for_iter)));
}
Next do_SEND(Executor& ex, Frame& f, int arg) {
  auto value = py::Owned<>::share(peek(f, 0));
  auto receiver = py::Owned<>::share(peek(f, 1));
  if (PyCoro_CheckExact(receiver.get())) refuse(bytecode::Opcode::SEND);
  Continuation send(K::Send);
  send.number = f.next + 2 * arg;
  if (PyObject* twin = ex.twin_of_generator(receiver.get())) receiver = py::Owned<>::share(twin);
  const bool generator = region::is_generator(receiver.get());
  drop(f, 1);
  note_loop(f, peek(f, 0));
  try {
    if (generator) return push(f, ex.and_then(ex.resume(receiver.get(), value.get()), std::move(send)));
    if (value.get() == Py_None) return push(f, ex.and_then(protocols::next(ex, receiver.get()), std::move(send)));
    PyObject* args[] = {receiver.get(), value.get()};
    return push(f, ex.and_then(protocols::call_polyfill(ex, "send_to", args), std::move(send)));
  } catch (const GraphBreak&) {  // before anything happened: the frame is at the start of its instruction
    f.stack.push_back(std::move(value));
    throw;
  }
}

Next do_MAKE_FUNCTION(Executor& ex, Frame& f, int arg) {
  auto code = py::Owned<>::share(peek(f, 0));
  auto function = py::take(PyFunction_New(code.get(), f.globals));
  auto* raw = reinterpret_cast<PyFunctionObject*>(function.get());
  std::size_t used = 1;
  auto take_part = [&](int flag, PyObject*& slot) {
    if ((arg & flag) == 0) return;
    Py_XSETREF(slot, Py_NewRef(peek(f, used)));
    ++used;
  };
  take_part(8, raw->func_closure);
  take_part(4, raw->func_annotations);
  take_part(2, raw->func_kwdefaults);
  take_part(1, raw->func_defaults);
  ex.region.provenance.note_made(function.get());
  drop(f, used);
  f.stack.push_back(std::move(function));
  return Next::Go;
}
Next do_LOAD_ASSERTION_ERROR(Executor&, Frame& f, int) {
  f.stack.push_back(py::Owned<>::share(PyExc_AssertionError));
  return Next::Go;
}
}  // namespace pellucid::trace
