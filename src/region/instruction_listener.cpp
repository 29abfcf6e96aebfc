#include "region/instruction_listener.h"

#include <pythread.h>
#include <structmember.h>

#include <chrono>
#include <cstddef>

#include "region/inside.h"
#include "region/profile.h"
#include "region/region.h"
#include "source/source.h"

namespace pellucid::region {
namespace {

PyTypeObject* event_type = nullptr;  // owned, like `readers`; both null: nobody reads
PyObject* readers = nullptr;

struct InstructionEvent {
  PyObject ob_base;
  PyObject* code;
  PyObject* stack;     // null: nobody has asked yet
  const Frame* frame;  // null: it has been told, and the frame has gone on
  Region* region;      // the same
  Inside* inside;      // owned; null: nobody has asked yet, or it has been told
  double seconds;
  unsigned long thread;
  std::pair<int, int> compile_id;
  int offset;
  int depth;
};

InstructionEvent& fields_of(PyObject* self) noexcept { return *reinterpret_cast<InstructionEvent*>(self); }

void dealloc(PyObject* self) {
  Py_CLEAR(fields_of(self).code);
  Py_CLEAR(fields_of(self).stack);
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* code_of(PyObject* self, void*) {
  PyObject* const code = fields_of(self).code;
  return Py_NewRef(code == nullptr ? Py_None : code);
}

PyObject* compile_id_of(PyObject* self, void*) {
  const auto [frame, compilation] = fields_of(self).compile_id;
  if (frame < 0) Py_RETURN_NONE;
  return Py_BuildValue("(ii)", frame, compilation);
}

py::Owned<> words_of(const Frame& frame) {
  auto words = py::take(PyList_New(0));
  for (const auto& value : frame.stack)
    py::check(PyList_Append(words.get(), py::str(value ? source::describe(value.get()) : "NULL").get()));
  return words;
}

PyObject* stack_of(PyObject* self, void*) {
  return py::enter([&] {
    InstructionEvent& event = fields_of(self);
    if (event.stack == nullptr) {
      if (event.frame == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "it was not read while the event was told, and is gone");
        throw py::PythonError();
      }
      event.stack = words_of(*event.frame).release();
    }
    return py::Owned<>::share(event.stack);
  });
}

PyObject* ask_of(PyObject* self, void*) {
  return py::enter([&] {
    InstructionEvent& event = fields_of(self);
    if (event.region == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "the capture that this is about has gone on");
      throw py::PythonError();
    }
    if (event.inside == nullptr) event.inside = new Inside(*event.region);
    return py::Owned<>::share(event.inside->function());
  });
}

PyGetSetDef computed[] = {
    {"ask", ask_of, nullptr, "Answers questions about the capture while the event is told.", nullptr},
    {"code", code_of, nullptr, "The code that is captured.", nullptr},
    {"compile_id", compile_id_of, nullptr, "Which function, and which compile of it.", nullptr},
    {"stack", stack_of, nullptr, "What is on the evaluation stack, in words; made when it is first read.", nullptr},
    {},
};

PyMemberDef stored[] = {
    {"offset", T_INT, offsetof(InstructionEvent, offset), READONLY, "Of the instruction in the code, in bytes."},
    {"depth", T_INT, offsetof(InstructionEvent, depth), READONLY, "How many calls deep."},
    {"seconds", T_DOUBLE, offsetof(InstructionEvent, seconds), READONLY, "As time.perf_counter counts."},
    {"thread", T_ULONG, offsetof(InstructionEvent, thread), READONLY, "As threading.get_ident names it."},
    {},
};

py::Owned<> event_of(const Frame& frame, Region& region) {
  auto made = py::take(event_type->tp_alloc(event_type, 0));
  InstructionEvent& event = fields_of(made.get());
  event.code = Py_NewRef(frame.code.object());
  event.frame = &frame;
  event.region = &region;
  event.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  event.thread = PyThread_get_thread_ident();
  event.compile_id = told_compile;
  event.offset = frame.at;
  event.depth = frame.depth;
  return made;
}

// Tells all readers; what one raises is reported and changes nothing else, but for what ends a program.
void tell_readers(PyObject* all, PyObject* event) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); ++i) {
    PyObject* const reader = PyTuple_GET_ITEM(all, i);
    PyObject* const done = PyObject_CallOneArg(reader, event);
    if (done == nullptr) {
      if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::PythonError();
      PyErr_WriteUnraisable(reader);
    }
    Py_XDECREF(done);
  }
}

}  // namespace

void note_who_watches() noexcept { each_instruction = profile != nullptr || readers != nullptr; }

void note_instruction(Frame& frame, Region& region) {
  if (profile != nullptr) profile->note(frame);
  if (readers == nullptr || frame.hidden) return;
  const auto all = py::Owned<>::share(readers);  // one of them may end its subscription
  const auto event = event_of(frame, region);
  struct Told {
    PyObject* event;
    ~Told() {
      InstructionEvent& fields = fields_of(event);
      fields.frame = nullptr;
      fields.region = nullptr;
      delete std::exchange(fields.inside, nullptr);
    }
  } const told{event.get()};
  tell_readers(all.get(), event.get());
}

PyTypeObject* instruction_event_type() {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_getset, computed},
      {Py_tp_members, stored},
      {0, nullptr},
  };
  static PyType_Spec spec = {"pellucid._core.InstructionEvent", sizeof(InstructionEvent), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::take(PyType_FromSpec(&spec)).release());
  return type;
}

void set_instruction_readers(PyObject* type, PyObject* all) noexcept {
  auto* const type_before = std::exchange(event_type, reinterpret_cast<PyTypeObject*>(Py_XNewRef(type)));
  PyObject* const before = std::exchange(readers, Py_XNewRef(all));
  note_who_watches();
  Py_XDECREF(reinterpret_cast<PyObject*>(type_before));
  Py_XDECREF(before);
}

}  // namespace pellucid::region
