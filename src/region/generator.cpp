#include "region/generator.h"

#include "region/frame.h"

namespace pellucid::region {

std::vector<std::unique_ptr<Frame>>& abandoned() {
  static std::vector<std::unique_ptr<Frame>> bodies;  // filled and emptied by the thread that captures, under the GIL
  return bodies;
}

namespace {
int gathering = 0;
}

Gathering::Gathering() noexcept { ++gathering; }
Gathering::~Gathering() {
  --gathering;
  while (!abandoned().empty()) std::exchange(abandoned(), {});  // one may hold others
}

namespace {

void dealloc(PyObject* self) {
  auto* generator = reinterpret_cast<TracedGenerator*>(self);
  std::unique_ptr<Frame> body(std::exchange(generator->frame, nullptr));
  if (body && gathering > 0 && generator->in_block && !generator->is_twin) abandoned().push_back(std::move(body));
  body.reset();
  Py_XDECREF(generator->function);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* refuse(PyObject*) {
  PyErr_SetString(PyExc_TypeError, "a generator of a captured region can only be resumed by the capture");
  return nullptr;
}

PyObject* refuse_call(PyObject* self, PyObject*) { return refuse(self); }

// Their meaning is in the rules for them (rows/generators.cpp).
PyMethodDef methods[] = {{"send", refuse_call, METH_VARARGS, nullptr},
                         {"throw", refuse_call, METH_VARARGS, nullptr},
                         {"close", refuse_call, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
    {Py_tp_iternext, reinterpret_cast<void*>(refuse)},
    {0, nullptr},
};
PyType_Spec spec = {"pellucid._core.TracedGenerator", sizeof(TracedGenerator), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyTypeObject* generator_type() {
  static PyTypeObject* const type = [] {
    auto* made = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (made != nullptr) made->tp_name = "generator";  // what messages of C functions say
    return made;
  }();
  return type;
}

py::Owned<> new_generator(std::unique_ptr<Frame> frame) {
  auto self = py::take(generator_type()->tp_alloc(generator_type(), 0));
  auto* generator = reinterpret_cast<TracedGenerator*>(self.get());
  generator->frame = frame.release();
  generator->function = nullptr;
  generator->loop = nullptr;
  generator->running = generator->started = generator->in_block = false;
  generator->is_polyfill = generator->is_twin = false;
  return self;
}

}  // namespace pellucid::region
