#include "rows/comptime.h"

#include <algorithm>

#include "base/progress.h"
#include "bytecode/opcodes.h"
#include "guards/home.h"
#include "guards/report.h"
#include "py/cpython.h"
#include "py/interrupts.h"
#include "py/traceback.h"
#include "region/snapshot.h"
#include "region/unread.h"
#include "rows/rows.h"
#include "symbolic/print.h"

namespace pellucid::rows {
namespace {

using bytecode::Opcode;
using region::Frame;

// ---- what is told of one value of the capture

py::Owned<> texts_of(Interpreter& t, const std::vector<const symbolic::Expr*>& exprs,
                     const std::vector<std::int64_t>& at_hand) {
  const auto name = [&](std::uint32_t symbol) { return t.region.numbers.name_of(symbol); };
  auto texts = py::take(PyList_New(0));
  for (std::size_t i = 0; i < at_hand.size(); ++i) {
    const auto text = exprs.empty() ? std::to_string(at_hand[i]) : symbolic::print(exprs[i], name);
    py::check(PyList_Append(texts.get(), py::str(text).get()));
  }
  return texts;
}

py::Owned<> list_of(const std::vector<std::int64_t>& numbers) {
  auto list = py::take(PyList_New(0));
  for (const std::int64_t number : numbers)
    py::check(PyList_Append(list.get(), py::take(PyLong_FromLongLong(number)).get()));
  return list;
}

// ("tensor", node or "", sizes as text, sizes, strides, dtype, device, requires_grad, class)
py::Owned<> tensor_facts(Interpreter& t, PyObject* tensor) {
  region::Recorder& recorder = t.region.recorder;
  const graph::Node* node = recorder.node_of(tensor);
  PyObject* fake = recorder.fake_or_itself(tensor);
  const aten::Meta meta = aten::meta_of(fake);
  aten::OpenShape open;
  if (aten::is_fake(fake)) {
    open = recorder.fakes().open_shape(fake);
  } else if (const aten::OpenShape* shape = t.region.numbers.tensors.shape_of(fake)) {
    open = *shape;  // no operator has used it yet
  }
  auto dtype = py::take(PyObject_GetAttrString(fake, "dtype")),
       device = py::take(PyObject_GetAttrString(fake, "device"));
  return py::take(Py_BuildValue("(ssNNNNNOO)", "tensor", node == nullptr ? "" : node->name.c_str(),
                                texts_of(t, open.sizes, meta.sizes).release(), list_of(meta.sizes).release(),
                                list_of(meta.strides).release(), dtype.release(), device.release(),
                                meta.requires_grad ? Py_True : Py_False, reinterpret_cast<PyObject*>(Py_TYPE(tensor))));
}

// ("number", value, expression or "")
py::Owned<> number_facts(Interpreter& t, PyObject* object) {
  const region::Number* number = region::as_number(object);
  std::string text;
  if (region::is_open(object))
    text = symbolic::print(number->expr, [&](std::uint32_t symbol) { return t.region.numbers.name_of(symbol); });
  return py::take(Py_BuildValue("(sOs)", "number", number->value, text.c_str()));
}

// ("items", class, [item, …]) or ("entries", class, [(key, value), …])
py::Owned<> container_facts(Interpreter& t, PyObject* container) {
  const region::Shadow* shadow = t.region.shadows.find_as_it_is(container);
  PyObject* now = shadow != nullptr && shadow->object ? shadow->object.get() : container;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(container));
  if (PyDict_Check(now)) {
    auto entries = py::take(PyList_New(0));
    for (const auto& [key, value] : region::entries_now(now))
      py::check(PyList_Append(entries.get(), py::take(PyTuple_Pack(2, key.get(), value.get())).get()));
    return py::take(Py_BuildValue("(sON)", "entries", type, entries.release()));
  }
  const bool in_order = PyList_Check(now) || PyTuple_Check(now);
  auto items = in_order ? py::take(PySequence_List(now)) : region::elements_now(now);
  if (shadow != nullptr && shadow->added) {
    for (const auto& item : region::items_now(shadow->added.get())) py::check(PyList_Append(items.get(), item.get()));
  }
  return py::take(Py_BuildValue("(sON)", "items", type, items.release()));
}

py::Owned<> facts_of(Interpreter& t, PyObject* object) {
  if (region::is_unread(object)) object = reinterpret_cast<region::Unread*>(object)->value;
  if (PyCell_Check(object)) {
    PyObject* held = t.region.shadows.cell_at_hand(object);
    return held == nullptr ? py::take(Py_BuildValue("(s)", "empty")) : facts_of(t, held);
  }
  if (region::is_number(object)) return number_facts(t, object);
  object = t.region.shadows.original(object);
  if (aten::is_tensor(object)) return tensor_facts(t, object);
  if (PyList_Check(object) || PyTuple_Check(object) || PyDict_Check(object) || PyAnySet_Check(object))
    return container_facts(t, object);
  return py::take(Py_BuildValue("(sO)", "object", object));
}

// ---- what is told of the frames, of which the innermost is the first

std::vector<Frame*> frames_of(Interpreter& t) {
  std::vector<Frame*> frames;
  for (Frame* frame = t.region.top; frame != nullptr; frame = frame->back.get()) {
    if (!frame->hidden) frames.push_back(frame);
  }
  return frames;
}

py::Owned<> places_of(Interpreter& t) {
  auto places = py::take(PyList_New(0));
  for (const Frame* frame : frames_of(t)) {
    auto place =
        py::take(Py_BuildValue("(Oii)", frame->code.get(), frame->at, py::line_of(frame->code.get(), frame->at)));
    py::check(PyList_Append(places.get(), place.get()));
  }
  return places;
}

Frame& frame_at(Interpreter& t, Py_ssize_t level) {
  const auto frames = frames_of(t);
  if (level < 0 || static_cast<std::size_t>(level) >= frames.size()) {
    PyErr_Format(PyExc_IndexError, "there are %zd frames in this capture", frames.size());
    throw py::PythonError();
  }
  return *frames[static_cast<std::size_t>(level)];
}

// [(name, value), …] of the variables that have one.
py::Owned<> locals_of(const Frame& frame) {
  auto locals = py::take(PyList_New(0));
  for (int slot = 0; slot < py::slot_count(frame.code.get()); ++slot) {
    PyObject* value = frame.local(slot);
    if (value == nullptr) continue;
    py::check(
        PyList_Append(locals.get(), py::take(PyTuple_Pack(2, py::slot_name(frame.code.get(), slot), value)).get()));
  }
  return locals;
}

// How many values on top of the stack are operands of the call that runs, which are none of the program's any more.
std::size_t operands_of(const Frame& frame) {
  const bytecode::Instruction& instruction = frame.decoded->at(frame.at);
  const auto arg = static_cast<std::size_t>(instruction.arg);
  if (instruction.op == Opcode::CALL) return arg + 2;
  return instruction.op == Opcode::CALL_FUNCTION_EX ? 3 + (arg & 1) : 0;
}

// (value,) for each place from the bottom up, () where there is none.
py::Owned<> stack_of(Interpreter& t, const Frame& frame) {
  const std::size_t own = &frame == t.region.top ? operands_of(frame) : 0;
  const std::size_t size = frame.stack.size() - std::min(own, frame.stack.size());
  auto values = py::take(PyList_New(0));
  for (std::size_t i = 0; i < size; ++i) {
    const auto place = frame.stack[i] ? py::take(PyTuple_Pack(1, frame.stack[i].get())) : py::take(PyTuple_New(0));
    py::check(PyList_Append(values.get(), place.get()));
  }
  return values;
}

py::Owned<> guards_of(Interpreter& t) {
  const auto& guards = t.region.capture->guards.all();
  const PyObject* home = guards::home_globals(t.region.capture->function.get()->func_globals, guards);
  auto rows = py::take(PyList_New(0));
  for (std::size_t i = 0; i < guards.size(); ++i)
    py::check(PyList_Append(rows.get(), guards::as_dict(guards::describe(guards[i], home)).get()));
  return rows;
}

// ---- the door for Python

constexpr const char* kCapture = "pellucid.comptime";

struct Open {
  Interpreter* t;  // null: the code is over
};

py::Owned<> answer(Interpreter& t, std::string_view question, PyObject* about) {
  const auto level = [&] {
    const Py_ssize_t number = PyNumber_AsSsize_t(about, PyExc_IndexError);
    if (number == -1 && PyErr_Occurred() != nullptr) throw py::PythonError();
    return number;
  };
  if (question == "frames") return places_of(t);
  if (question == "locals") return locals_of(frame_at(t, level()));
  if (question == "stack") return stack_of(t, frame_at(t, level()));
  if (question == "facts") return facts_of(t, about);
  if (question == "fix") return py::Owned<>::share(t.region.numbers.plain(about));
  if (question == "guards") return guards_of(t);
  if (question == "graph" && fx_graph_of != nullptr) return fx_graph_of(t.region.capture->graph);
  PyErr_SetString(PyExc_ValueError, "there is no such question");
  throw py::PythonError();
}

PyObject* ask(PyObject* self, PyObject* args) {
  const char* question = nullptr;
  PyObject* about = Py_None;
  if (PyArg_ParseTuple(args, "s|O:ask", &question, &about) == 0) return nullptr;
  return py::enter([&] {
    const auto* open = static_cast<const Open*>(PyCapsule_GetPointer(self, kCapture));
    if (open == nullptr) py::throw_pending();
    if (open->t == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "the capture that this is about has gone on");
      throw py::PythonError();
    }
    return answer(*open->t, question, about);
  });
}

PyMethodDef kAsk = {"ask", ask, METH_VARARGS, "A question about the capture, while the code runs."};

class Door {
 public:
  explicit Door(Interpreter& t) : open_(new Open{&t}) {
    const auto drop = [](PyObject* capsule) { delete static_cast<Open*>(PyCapsule_GetPointer(capsule, kCapture)); };
    capsule_ = py::take(PyCapsule_New(open_, kCapture, drop));
    function_ = py::take(PyCFunction_New(&kAsk, capsule_.get()));
  }
  ~Door() { open_->t = nullptr; }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  PyObject* function() const { return function_.get(); }

 private:
  Open* open_;  // the capsule's
  py::Owned<> capsule_, function_;
};

// What pellucid._comptime.`function` makes of it. A break that the code asks for is one, another exception is the
// business of whoever called the compiled function.
void run_now(Interpreter& t, const char* function, PyObject* what, PyObject* args, PyObject* kwargs) {
  static PyObject* const asked = py::import_attr("pellucid._comptime", "GraphBreakAsked").release();
  const auto run = py::import_attr("pellucid._comptime", function);
  const Door door(t);
  progress::hide();
  const py::InterruptsRun signals_are_handled;  // it may wait for somebody at a keyboard
  const auto done =
      py::Owned<>::steal(PyObject_CallFunctionObjArgs(run.get(), door.function(), what, args, kwargs, nullptr));
  if (done) return;
  const bool is_break = PyErr_ExceptionMatches(asked) != 0;
  const py::PythonError error;
  if (!is_break) py::throw_as_interruption(error.value());
  unsupported(Reason::ExplicitBreak, {{"message", py::text_of(py::take(PyObject_Str(error.value())).get())}});
}

[[noreturn]] void refuse_code(const char* why) {
  PyErr_Format(PyExc_TypeError, "pellucid.comptime: %s", why);
  throw py::Interruption();
}

// The code runs for real: it must not hold what only this capture knows.
void need_real_code(Interpreter& t, PyObject* code) {
  if (t.region.provenance.is_outside(code) || PyCFunction_Check(code)) return;
  if (!PyFunction_Check(code)) refuse_code("the code must be a function, or exist before the compiled function runs");
  const auto* function = reinterpret_cast<PyFunctionObject*>(code);
  if (function->func_defaults != nullptr || function->func_kwdefaults != nullptr)
    refuse_code("a function that is made in compiled code must have no defaults; ctx.get_local gives variables");
  for (Py_ssize_t i = 0; function->func_closure != nullptr && i < PyTuple_GET_SIZE(function->func_closure); ++i) {
    if (!t.region.provenance.is_outside(PyTuple_GET_ITEM(function->func_closure, i)))
      refuse_code("the function must not close over variables of compiled code; ctx.get_local gives them");
  }
}

PyObject* code_of(Args args) { return args.size() > 0 ? args[0] : args.keyword("fn"); }

}  // namespace

Result run_comptime(Interpreter& t, PyObject*, Args args) {
  PyObject* code = code_of(args);
  if (code == nullptr) refuse_code("there is no code to run");
  need_real_code(t, code);
  run_now(t, "run", code, Py_None, Py_None);
  return Result::none();
}

namespace {

// comptime.print_graph() and its like: the method of this name of the context.
Result run_method(Interpreter& t, PyObject* f, Args args) {
  auto values = tuple_of(args.positional());
  auto named = py::take(PyDict_New());
  for (std::size_t i = 0; i < args.keyword_count(); ++i)
    py::check(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(args.kwnames, i), args.values[args.size() + i]));
  auto name = py::take(PyObject_GetAttr(f, region::names().__name__));
  run_now(t, "run_method", name.get(), values.get(), named.get());
  return Result::none();
}

Result run_and_return(Interpreter& t, PyObject* f, Args args) {
  if (args.size() == 0) return complain(t, f, args);
  run_method(t, f, args);
  return Result::of(py::Owned<>::share(args[0]));
}

#define METHOD(name) \
  { "pellucid._comptime.Comptime." name, run_method, true, true }

const Row rows[] = {
    {"pellucid._comptime.Comptime.__call__", run_comptime, true, true},
    {"pellucid._comptime.Comptime.print_value_stack_and_return", run_and_return, true, true},
    METHOD("graph_break"),
    METHOD("print"),
    METHOD("print_graph"),
    METHOD("print_disas"),
    METHOD("print_value_stack"),
    METHOD("print_locals"),
    METHOD("print_bt"),
    METHOD("print_guards"),
    METHOD("assert_static"),
    METHOD("force_static"),
    METHOD("breakpoint"),
    METHOD("sleep"),
};

#undef METHOD

}  // namespace

const std::span<const Row> kComptimeRows = rows;

}  // namespace pellucid::rows
