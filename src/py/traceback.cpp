#include "py/traceback.h"

#include <frameobject.h>

namespace pellucid::py {

int line_of(PyCodeObject* code, int offset) noexcept {
  const int line = offset < 0 ? -1 : PyCode_Addr2Line(code, offset);
  return line < 0 ? code->co_firstlineno : line;
}

void add_traceback(PyObject* exception, PyObject* frame, PyCodeObject* code, int lasti) {
  auto before = Owned<>::steal(PyException_GetTraceback(exception));
  auto offset = take(PyLong_FromLong(lasti));
  auto line = take(PyLong_FromLong(PyCode_Addr2Line(code, lasti)));
  PyObject* args[] = {before ? before.get() : Py_None, frame, offset.get(), line.get()};
  auto entry = take(PyObject_Vectorcall(reinterpret_cast<PyObject*>(&PyTraceBack_Type), args, 4, nullptr));
  check(PyException_SetTraceback(exception, entry.get()));
}

void name_attribute(PyObject* error, PyObject* object, PyObject* name) {
  auto* told = reinterpret_cast<PyAttributeErrorObject*>(error);
  if (told->name != nullptr || told->obj != nullptr) return;
  told->name = Py_NewRef(name);
  told->obj = Py_NewRef(object);
}

}  // namespace pellucid::py
