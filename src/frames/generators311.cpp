#include <utility>

#include "frames/frame_objects.h"
#include "frames/generators.h"

#define Py_BUILD_CORE
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <opcode.h>
#undef Py_BUILD_CORE

namespace pellucid::frames {
namespace {

_PyInterpreterFrame* frame_of(PyObject* generator) noexcept {
  return reinterpret_cast<_PyInterpreterFrame*>(reinterpret_cast<PyGenObject*>(generator)->gi_iframe);
}

int next_of(const _PyInterpreterFrame* frame) noexcept {
  return static_cast<int>(frame->prev_instr + 1 - _PyCode_CODE(frame->f_code)) * 2;
}

bool has_started(PyObject* generator) noexcept {
  return reinterpret_cast<PyGenObject*>(generator)->gi_frame_state != FRAME_CREATED;
}

// The generator function's own prologue makes the frame: it needs some value for each argument.
PyObject* make(PyObject*, PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  const auto positional = static_cast<std::size_t>(code->co_argcount);
  return py::enter([&] {
    const std::vector<PyObject*> nothing(positional + static_cast<std::size_t>(code->co_kwonlyargcount) + 1, Py_None);
    py::Owned<> names;
    if (code->co_kwonlyargcount != 0) {
      names = py::take(
          PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount, code->co_argcount + code->co_kwonlyargcount));
    }
    auto generator = py::take(PyObject_Vectorcall(function, nothing.data(), positional, names.get()));
    // Frames of generators count as begun whatever they run, unless they look like those of calls.
    if (is_hidden(code)) frame_of(generator.get())->owner = FRAME_OWNED_BY_THREAD;
    return generator;
  });
}

PyObject* filled(PyObject* values, Py_ssize_t at) noexcept {
  PyObject* value = PyTuple_GET_ITEM(values, at);
  return value == empty_slot() ? nullptr : Py_NewRef(value);
}

PyObject* fill(PyObject*, PyObject* const* args, Py_ssize_t) {
  auto* generator = reinterpret_cast<PyGenObject*>(args[0]);
  _PyInterpreterFrame* frame = frame_of(args[0]);
  const bool started = args[1] == Py_True;
  const long next = PyLong_AsLong(args[2]);
  PyObject *fast = args[3], *stack = args[4];
  return py::enter([&] {
    // What was there goes last: a destructor may look at the generator, and finds it as it will be.
    std::vector<PyObject*> dropped(frame->localsplus, frame->localsplus + frame->stacktop);
    Py_ssize_t slot = 0;
    for (PyObject* values : {fast, stack}) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) frame->localsplus[slot++] = filled(values, i);
    }
    frame->stacktop = static_cast<int>(slot);
    frame->prev_instr = _PyCode_CODE(frame->f_code) + next / 2 - 1;
    if (started) generator->gi_frame_state = FRAME_SUSPENDED;
    set_handled(args[0], args[5] == Py_None ? py::Owned<>() : py::Owned<>::share(args[5]));
    if (args[6] != Py_None) adopt(frame, args[6]);
    for (PyObject* value : dropped) Py_XDECREF(value);
    return py::Owned<>::share(Py_None);
  });
}

// As the interpreter leaves a generator whose body has returned.
PyObject* end(PyObject*, PyObject* object) {
  auto* generator = reinterpret_cast<PyGenObject*>(object);
  _PyInterpreterFrame* frame = frame_of(object);
  generator->gi_frame_state = FRAME_CLEARED;
  const int count = std::exchange(frame->stacktop, 0);
  for (int slot = 0; slot < count; ++slot) {
    PyObject* old = std::exchange(frame->localsplus[slot], nullptr);
    Py_XDECREF(old);
  }
  Py_CLEAR(frame->f_locals);
  Py_DECREF(frame->f_func);
  Py_DECREF(frame->f_code);
  Py_RETURN_NONE;
}

PyMethodDef kEnd = {"__end_generator", end, METH_O, nullptr};
PyMethodDef kMake = {"__make_generator", make, METH_O, nullptr};
PyMethodDef kFill = {"__fill_generator", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fill)),
                     METH_FASTCALL, nullptr};

}  // namespace

bool has_ended(PyObject* generator) noexcept {
  return reinterpret_cast<PyGenObject*>(generator)->gi_frame_state >= FRAME_COMPLETED;
}

bool is_running(PyObject* generator) noexcept {
  return reinterpret_cast<PyGenObject*>(generator)->gi_frame_state == FRAME_EXECUTING;
}

bool is_readable_generator(PyObject* object) noexcept {
  if (PyGen_CheckExact(object) == 0) return false;
  if (has_ended(object)) return true;
  const auto* generator = reinterpret_cast<PyGenObject*>(object);
  if (is_running(object)) return false;
  PyObject* handled = generator->gi_exc_state.exc_value;
  return (handled == nullptr || handled == Py_None) && frame_of(object)->frame_obj == nullptr &&
         frame_of(object)->f_locals == nullptr;
}

GeneratorState state_of_generator(PyObject* generator) {
  _PyInterpreterFrame* frame = frame_of(generator);
  GeneratorState state{frame->f_func, frame->f_code, has_started(generator), next_of(frame), {}};
  state.values.assign(frame->localsplus, frame->localsplus + frame->stacktop);
  return state;
}

PyObject* generator_slot(PyObject* generator, Py_ssize_t index) noexcept {
  if (PyGen_CheckExact(generator) == 0 || has_ended(generator)) return nullptr;
  const _PyInterpreterFrame* frame = frame_of(generator);
  return index < frame->stacktop ? frame->localsplus[index] : nullptr;
}

py::Owned<> place_of_generator(PyObject* generator) {
  if (has_ended(generator)) return py::Owned<>::share(Py_None);
  const _PyInterpreterFrame* frame = frame_of(generator);
  std::string filled;
  for (int slot = 0; slot < frame->stacktop; ++slot) filled.push_back(frame->localsplus[slot] == nullptr ? '0' : '1');
  auto slots = py::take(PyBytes_FromStringAndSize(filled.data(), static_cast<Py_ssize_t>(filled.size())));
  return py::take(Py_BuildValue("(OOiiO)", frame->f_code, frame->f_globals, has_started(generator) ? 1 : 0,
                                next_of(frame), slots.get()));
}

bool stands_at(PyObject* generator, PyObject* place) noexcept {
  if (!is_readable_generator(generator)) return false;
  if (has_ended(generator) || place == Py_None) return has_ended(generator) && place == Py_None;
  const _PyInterpreterFrame* frame = frame_of(generator);
  const auto number = [&](Py_ssize_t at) { return PyLong_AsLong(PyTuple_GET_ITEM(place, at)); };
  PyObject* filled = PyTuple_GET_ITEM(place, 4);
  const bool there = reinterpret_cast<PyObject*>(frame->f_code) == PyTuple_GET_ITEM(place, 0) &&
                     frame->f_globals == PyTuple_GET_ITEM(place, 1) && number(2) == (has_started(generator) ? 1 : 0) &&
                     number(3) == next_of(frame) && PyBytes_GET_SIZE(filled) == frame->stacktop;
  for (int slot = 0; there && slot < frame->stacktop; ++slot) {
    if ((frame->localsplus[slot] != nullptr) != (PyBytes_AS_STRING(filled)[slot] == '1')) return false;
  }
  return there;
}

std::string describe_place(PyObject* place) {
  if (place == Py_None) return "its end";
  const auto* code = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(place, 0));
  return py::text_of(code->co_qualname) + " at byte " + py::repr_of(PyTuple_GET_ITEM(place, 3));
}

bool is_frame_of(const void* interpreter_frame, PyObject* generator) noexcept {
  return interpreter_frame == frame_of(generator);
}

PyObject* resume_generator(PyObject* generator) noexcept {
  PyObject* result = nullptr;
  switch (PyIter_Send(generator, Py_None, &result)) {
    case PYGEN_NEXT:
      return result;
    case PYGEN_RETURN:
      if (result == Py_None) {
        PyErr_SetNone(PyExc_StopIteration);
      } else {
        _PyGen_SetStopIterationValue(result);
      }
      Py_DECREF(result);
      return nullptr;
    case PYGEN_ERROR:
      break;
  }
  return nullptr;
}

void set_handled(PyObject* generator, py::Owned<> exception) noexcept {
  auto& slot = reinterpret_cast<PyGenObject*>(generator)->gi_exc_state.exc_value;
  const auto before = py::Owned<>::steal(std::exchange(slot, exception.release()));
}

py::Owned<> take_handled(PyObject* generator) noexcept {
  auto& slot = reinterpret_cast<PyGenObject*>(generator)->gi_exc_state.exc_value;
  auto handled = py::Owned<>::steal(std::exchange(slot, nullptr));
  return handled.get() == Py_None ? py::Owned<>() : std::move(handled);
}

void park_generator(PyObject* generator) noexcept {
  _PyInterpreterFrame* frame = frame_of(generator);
  const int locals = frame->f_code->co_nlocalsplus;
  for (int slot = 0; slot < frame->stacktop; ++slot) Py_CLEAR(frame->localsplus[slot]);
  frame->stacktop = locals;
  Py_CLEAR(frame->f_locals);
  Py_CLEAR(frame->frame_obj);  // nobody else has it
  reinterpret_cast<PyGenObject*>(generator)->gi_frame_state = FRAME_SUSPENDED;
}

void rest_generator(PyObject* generator) noexcept {
  _PyInterpreterFrame* frame = frame_of(generator);
  _Py_CODEUNIT* at = _PyCode_CODE(frame->f_code);
  while (_Py_OPCODE(*at) != RETURN_GENERATOR) ++at;
  frame->prev_instr = at;
  reinterpret_cast<PyGenObject*>(generator)->gi_frame_state = FRAME_CREATED;
}

PyObject* generator_ender() {
  static PyObject* const function = py::take(PyCFunction_New(&kEnd, nullptr)).release();
  return function;
}
PyObject* generator_maker() {
  static PyObject* const function = py::take(PyCFunction_New(&kMake, nullptr)).release();
  return function;
}
PyObject* generator_filler() {
  static PyObject* const function = py::take(PyCFunction_New(&kFill, nullptr)).release();
  return function;
}
PyObject* empty_slot() {
  static PyObject* const empty =
      py::take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release();
  return empty;
}

}  // namespace pellucid::frames
