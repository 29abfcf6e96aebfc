#include "region/inside.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bytecode/opcodes.h"
#include "frames/generators.h"
#include "guards/home.h"
#include "guards/report.h"
#include "py/cpython.h"
#include "py/traceback.h"
#include "region/region.h"
#include "region/snapshot.h"
#include "region/unread.h"
#include "symbolic/print.h"

namespace pellucid::region {
namespace {

using bytecode::Opcode;

// ---- what is told of one value of the capture

py::Owned<> texts_of(Region& region, const std::vector<const symbolic::Expr*>& exprs,
                     const std::vector<std::int64_t>& at_hand) {
  const auto name = [&](std::uint32_t symbol) { return region.numbers.name_of(symbol); };
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
py::Owned<> tensor_facts(Region& region, PyObject* tensor) {
  Recorder& recorder = region.recorder;
  const graph::Node* node = recorder.node_of(tensor);
  PyObject* fake = recorder.fake_or_itself(tensor);
  const aten::Meta meta = aten::meta_of(fake);
  aten::OpenShape open;
  if (aten::is_fake(fake)) {
    open = recorder.fakes().open_shape(fake);
  } else if (const aten::OpenShape* shape = region.numbers.tensors.shape_of(fake)) {
    open = *shape;  // no operator has used it yet
  }
  auto dtype = py::take(PyObject_GetAttrString(fake, "dtype")),
       device = py::take(PyObject_GetAttrString(fake, "device"));
  return py::take(Py_BuildValue("(ssNNNNNOO)", "tensor", node == nullptr ? "" : node->name.c_str(),
                                texts_of(region, open.sizes, meta.sizes).release(), list_of(meta.sizes).release(),
                                list_of(meta.strides).release(), dtype.release(), device.release(),
                                meta.requires_grad ? Py_True : Py_False, reinterpret_cast<PyObject*>(Py_TYPE(tensor))));
}

// ("number", value, expression or "")
py::Owned<> number_facts(Region& region, PyObject* object) {
  const Number* number = as_number(object);
  std::string text;
  if (is_open(object))
    text = symbolic::print(number->expr, [&](std::uint32_t symbol) { return region.numbers.name_of(symbol); });
  return py::take(Py_BuildValue("(sOs)", "number", number->value, text.c_str()));
}

// ("items", class, [item, …]) or ("entries", class, [(key, value), …])
py::Owned<> container_facts(Region& region, PyObject* container) {
  const Shadow* shadow = region.shadows.find_as_it_is(container);
  PyObject* now = shadow != nullptr && shadow->object ? shadow->object.get() : container;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(container));
  if (PyDict_Check(now)) {
    auto entries = py::take(PyList_New(0));
    for (const auto& [key, value] : entries_now(now))
      py::check(PyList_Append(entries.get(), py::take(PyTuple_Pack(2, key.get(), value.get())).get()));
    return py::take(Py_BuildValue("(sON)", "entries", type, entries.release()));
  }
  const bool in_order = PyList_Check(now) || PyTuple_Check(now);
  auto items = in_order ? py::take(PySequence_List(now)) : elements_now(now);
  if (shadow != nullptr && shadow->added) {
    for (const auto& item : items_now(shadow->added.get())) py::check(PyList_Append(items.get(), item.get()));
  }
  return py::take(Py_BuildValue("(sON)", "items", type, items.release()));
}

py::Owned<> facts_of(Region& region, PyObject* object) {
  if (is_unread(object)) object = reinterpret_cast<Unread*>(object)->value;
  if (PyCell_Check(object)) {
    PyObject* held = region.shadows.cell_at_hand(object);
    return held == nullptr ? py::take(Py_BuildValue("(s)", "empty")) : facts_of(region, held);
  }
  if (is_number(object)) return number_facts(region, object);
  object = region.shadows.original(object);
  if (aten::is_tensor(object)) return tensor_facts(region, object);
  if (PyList_Check(object) || PyTuple_Check(object) || PyDict_Check(object) || PyAnySet_Check(object))
    return container_facts(region, object);
  return py::take(Py_BuildValue("(sO)", "object", object));
}

// ---- what is told of the frames, of which the innermost is the first

std::vector<Frame*> frames_of(Region& region) {
  std::vector<Frame*> frames;
  for (Frame* frame = region.top; frame != nullptr; frame = frame->back.get()) {
    if (!frame->hidden) frames.push_back(frame);
  }
  return frames;
}

py::Owned<> places_of(Region& region) {
  auto places = py::take(PyList_New(0));
  for (const Frame* frame : frames_of(region)) {
    auto place =
        py::take(Py_BuildValue("(Oii)", frame->code.get(), frame->at, py::line_of(frame->code.get(), frame->at)));
    py::check(PyList_Append(places.get(), place.get()));
  }
  return places;
}

Frame& frame_at(Region& region, Py_ssize_t level) {
  const auto frames = frames_of(region);
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
    if (value == nullptr || (is_unread(value) && reinterpret_cast<Unread*>(value)->value == frames::empty_slot()))
      continue;
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
py::Owned<> stack_of(const Frame& frame, std::size_t without) {
  const std::size_t size = frame.stack.size() - std::min(without, frame.stack.size());
  auto values = py::take(PyList_New(0));
  for (std::size_t i = 0; i < size; ++i) {
    const auto place = frame.stack[i] ? py::take(PyTuple_Pack(1, frame.stack[i].get())) : py::take(PyTuple_New(0));
    py::check(PyList_Append(values.get(), place.get()));
  }
  return values;
}

// From the one with this number on.
py::Owned<> guards_of(Region& region, std::size_t first) {
  const auto& guards = region.capture->guards.all();
  const PyObject* home = guards::home_globals(region.capture->function.get()->func_globals, guards);
  auto rows = py::take(PyList_New(0));
  for (std::size_t i = first; i < guards.size(); ++i)
    py::check(PyList_Append(rows.get(), guards::as_dict(guards::describe(guards[i], home)).get()));
  return rows;
}

// A number that changes when the graph so far gets another node, or a node another name.
std::size_t graph_state_of(const graph::Graph& graph) {
  std::size_t state = graph.placeholders().size();
  for (const auto* nodes : {&graph.placeholders(), &graph.nodes()}) {
    for (const graph::Node* node : *nodes) state = state * 1000003 + std::hash<std::string>{}(node->name);
  }
  return state;
}

// ---- the door for Python

constexpr const char* kName = "pellucid.inside";

py::Owned<> answer(Region& region, std::string_view question, PyObject* about) {
  const auto number = [&] {
    const Py_ssize_t given = PyNumber_AsSsize_t(about, PyExc_IndexError);
    if (given == -1 && PyErr_Occurred() != nullptr) throw py::PythonError();
    return given;
  };
  const auto frame = [&]() -> Frame& { return frame_at(region, number()); };
  if (question == "frames") return places_of(region);
  if (question == "locals") return locals_of(frame());
  if (question == "stack") return stack_of(frame(), &frame() == region.top ? operands_of(frame()) : 0);
  if (question == "whole_stack") return stack_of(frame(), 0);
  if (question == "facts") return facts_of(region, about);
  if (question == "fix") return py::Owned<>::share(region.numbers.plain(about));
  if (question == "guards") return guards_of(region, about == Py_None ? 0 : static_cast<std::size_t>(number()));
  if (question == "guard_count") return py::take(PyLong_FromSize_t(region.capture->guards.all().size()));
  if (question == "graph_state") return py::take(PyLong_FromSize_t(graph_state_of(region.capture->graph)));
  if (question == "graph_text") return py::str(graph::print(region.capture->graph));
  if (question == "graph" && fx_graph_of != nullptr) return fx_graph_of(region.capture->graph);
  PyErr_SetString(PyExc_ValueError, "there is no such question");
  throw py::PythonError();
}

PyObject* ask(PyObject* self, PyObject* args) {
  const char* question = nullptr;
  PyObject* about = Py_None;
  if (PyArg_ParseTuple(args, "s|O:ask", &question, &about) == 0) return nullptr;
  return py::enter([&] {
    const auto* open = static_cast<Region* const*>(PyCapsule_GetPointer(self, kName));
    if (open == nullptr) py::throw_pending();
    if (*open == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "the capture that this is about has gone on");
      throw py::PythonError();
    }
    return answer(**open, question, about);
  });
}

PyMethodDef kAsk = {"ask", ask, METH_VARARGS, "A question about the capture, as long as it stands where it does."};

}  // namespace

Inside::Inside(Region& region) : open_(new Region*(&region)) {
  const auto drop = [](PyObject* capsule) { delete static_cast<Region**>(PyCapsule_GetPointer(capsule, kName)); };
  const auto capsule = py::take(PyCapsule_New(open_, kName, drop));
  function_ = py::take(PyCFunction_New(&kAsk, capsule.get()));
}

Inside::~Inside() { *open_ = nullptr; }

}  // namespace pellucid::region
