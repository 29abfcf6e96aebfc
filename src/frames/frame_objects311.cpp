#include "frames/frame_objects.h"
#include "frames/generators.h"

#define Py_BUILD_CORE
#include <frameobject.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <utility>

namespace pellucid::frames {
namespace {

PyFrameObject* as_frame(PyObject* object) noexcept { return reinterpret_cast<PyFrameObject*>(object); }

_PyInterpreterFrame* own_data(PyFrameObject* object) noexcept {
  return reinterpret_cast<_PyInterpreterFrame*>(object->_f_frame_data);
}

PyObject* make(PyObject*, PyObject* const* args, Py_ssize_t) {
  return py::enter([&] { return new_frame_object(reinterpret_cast<PyCodeObject*>(args[0]), args[1]); });
}

// The frame of the program that called the region whose code runs.
py::Owned<> caller_of_region() {
  PyFrameObject* region = PyEval_GetFrame();
  return py::Owned<>::steal(region == nullptr ? nullptr : reinterpret_cast<PyObject*>(PyFrame_GetBack(region)));
}

PyObject* close(PyObject*, PyObject* const* args, Py_ssize_t) {
  return py::enter([&] {
    std::vector<py::Owned<>> fast;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[2]); ++i) {
      PyObject* value = PyTuple_GET_ITEM(args[2], i);
      fast.push_back(value == empty_slot() ? py::Owned<>() : py::Owned<>::share(value));
    }
    const auto back = args[3] == region_caller() ? caller_of_region() : py::Owned<>::share(args[3]);
    close_frame_object(args[0], static_cast<int>(PyLong_AsLong(args[1])), fast,
                       back && PyFrame_Check(back.get()) ? back.get() : nullptr);
    return py::Owned<>::share(Py_None);
  });
}

PyObject* link_context(PyObject*, PyObject* exception) {
  PyObject* handled = PyErr_GetHandledException();
  if (handled == exception) Py_CLEAR(handled);
  if (handled != nullptr) PyException_SetContext(exception, handled);
  Py_RETURN_NONE;
}

PyCFunction fast_call(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef kMake = {"__make_frame", fast_call(make), METH_FASTCALL, nullptr};
PyMethodDef kClose = {"__close_frame", fast_call(close), METH_FASTCALL, nullptr};
PyMethodDef kLink = {"__link_context", link_context, METH_O, nullptr};

}  // namespace

py::Owned<> new_frame_object(PyCodeObject* code, PyObject* globals) {
  auto made = py::take(reinterpret_cast<PyObject*>(PyFrame_New(PyThreadState_Get(), code, globals, nullptr)));
  as_frame(made.get())->f_frame->prev_instr = _PyCode_CODE(code) + code->_co_firsttraceable;
  return made;
}

void close_frame_object(PyObject* object, int lasti, const std::vector<py::Owned<>>& fast, PyObject* back) {
  PyFrameObject* const frame = as_frame(object);
  _PyInterpreterFrame* const data = frame->f_frame;
  data->prev_instr = _PyCode_CODE(data->f_code) + lasti / 2;
  std::size_t slot = 0;
  for (const auto& value : fast) {
    PyObject* old = std::exchange(data->localsplus[slot++], value.copy().release());
    Py_XDECREF(old);
  }
  data->stacktop = static_cast<int>(slot);
  PyFrameObject* before = std::exchange(frame->f_back, as_frame(Py_XNewRef(back)));
  Py_XDECREF(before);
}

ClosedFrame closed_frame(PyObject* object) {
  const PyFrameObject* frame = as_frame(object);
  const _PyInterpreterFrame* data = frame->f_frame;
  ClosedFrame closed{data->f_globals,
                     data->f_code,
                     static_cast<int>(data->prev_instr - _PyCode_CODE(data->f_code)) * 2,
                     {data->localsplus, data->localsplus + data->stacktop},
                     reinterpret_cast<PyObject*>(frame->f_back)};
  return closed;
}

// What it holds as one that stands alone goes; the dict of f_locals stays the one that the program has seen. The code
// of a module has its globals there, also when nobody looked.
void adopt(_PyInterpreterFrame* frame, PyObject* object) noexcept {
  PyFrameObject* const mine = as_frame(object);
  _PyInterpreterFrame* const data = mine->f_frame;
  PyObject_GC_UnTrack(object);
  mine->f_frame = frame;
  frame->frame_obj = as_frame(Py_NewRef(object));
  if (PyObject* seen = std::exchange(data->f_locals, nullptr)) Py_XSETREF(frame->f_locals, seen);
  Py_CLEAR(mine->f_back);
  for (int slot = 0; slot < data->stacktop; ++slot) Py_CLEAR(data->localsplus[slot]);
  Py_CLEAR(data->f_func);
  Py_CLEAR(data->f_code);
}

void rest(_PyInterpreterFrame* frame) noexcept {
  PyFrameObject* const object = std::exchange(frame->frame_obj, nullptr);
  if (object == nullptr) return;
  _PyInterpreterFrame* const data = own_data(object);
  const int locals = frame->f_code->co_nlocalsplus;
  auto* function = reinterpret_cast<PyFunctionObject*>(Py_NewRef(frame->f_func));
  _PyFrame_InitializeSpecials(data, function, nullptr, locals);
  data->f_globals = frame->f_globals, data->f_builtins = frame->f_builtins;
  data->f_locals = std::exchange(frame->f_locals, nullptr);
  data->prev_instr = frame->prev_instr;
  data->previous = nullptr;
  data->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  for (int slot = 0; slot < locals; ++slot) data->localsplus[slot] = nullptr;
  object->f_frame = data;
  PyObject_GC_Track(object);
  Py_DECREF(object);
}

bool is_wanted(PyObject* resting) noexcept {
  return Py_REFCNT(resting) > 1 || own_data(as_frame(resting))->f_locals != nullptr;
}

// Held for good: the address of a dead one could be that of the user's code. A real frame of it counts as one that did
// not begin yet: tracebacks and sys._getframe leave those out.
void hide_code(PyCodeObject* code) noexcept {
  if (is_hidden(code)) return;
  Py_INCREF(code);
  constexpr int kNever = 1 << 28;
  code->_co_firsttraceable = kNever;
}
bool is_hidden(const PyCodeObject* code) noexcept { return code->_co_firsttraceable > Py_SIZE(code); }

void keep_locals_of_running(const _PyInterpreterFrame* frame) noexcept {
  if (frame->f_locals != nullptr && !is_hidden(frame->f_code)) PyEval_GetFrame();  // makes it
}

PyObject* frame_maker() {
  static PyObject* const function = py::take(PyCFunction_New(&kMake, nullptr)).release();
  return function;
}
PyObject* frame_closer() {
  static PyObject* const function = py::take(PyCFunction_New(&kClose, nullptr)).release();
  return function;
}
PyObject* context_linker() {
  static PyObject* const function = py::take(PyCFunction_New(&kLink, nullptr)).release();
  return function;
}
PyObject* region_caller() {
  static PyObject* const marker =
      py::take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release();
  return marker;
}

}  // namespace pellucid::frames
