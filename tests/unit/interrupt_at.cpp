#include "interrupt_at.h"

namespace unit {
namespace {

PyMemAllocatorEx before;
bool counts = false;
long long count = 0, at = 0;
unsigned long counted_thread = 0;  // others that run in between (the monitor of tqdm is one) are not meant
PyObject* sent = nullptr;          // an exception class; null: the signal
int signal_number = 0;

void count_one() noexcept {
  if (PyThread_get_thread_ident() != counted_thread || ++count != at) return;
  if (sent != nullptr) {
    PyThreadState_SetAsyncExc(counted_thread, sent);
  } else {
    PyErr_SetInterruptEx(signal_number);
  }
}

void* allocate(void*, std::size_t size) {
  count_one();
  return before.malloc(before.ctx, size);
}
void* allocate_zeros(void*, std::size_t number, std::size_t size) {
  count_one();
  return before.calloc(before.ctx, number, size);
}
void* reallocate(void*, void* block, std::size_t size) {
  count_one();
  return before.realloc(before.ctx, block, size);
}
void release(void*, void* block) { before.free(before.ctx, block); }

}  // namespace

PyObject* interrupt_at(PyObject*, PyObject* args) {
  PyObject* what = nullptr;
  if (PyArg_ParseTuple(args, "LO", &at, &what) == 0) return nullptr;
  Py_CLEAR(sent);
  if (PyExceptionClass_Check(what)) {
    sent = Py_NewRef(what);
  } else {
    signal_number = static_cast<int>(PyLong_AsLong(what));
    if (signal_number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  }
  if (!counts) {
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &before);
    PyMemAllocatorEx counting{nullptr, allocate, allocate_zeros, reallocate, release};
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &counting);
    counts = true;
  }
  count = 0;
  counted_thread = PyThread_get_thread_ident();
  Py_RETURN_NONE;
}

PyObject* allocations(PyObject*, PyObject*) {
  const long long made = count;
  if (counts) PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &before);
  counts = false;
  return PyLong_FromLongLong(made);
}

}  // namespace unit
