#include "py/traceback.h"

#include <frameobject.h>

namespace pellucid::py {

void add_traceback(PyObject* exception, PyObject* frame, PyCodeObject* code, int lasti) {
  auto before = Owned<>::steal(PyException_GetTraceback(exception));
  auto offset = take(PyLong_FromLong(lasti));
  auto line = take(PyLong_FromLong(PyCode_Addr2Line(code, lasti)));
  PyObject* args[] = {before ? before.get() : Py_None, frame, offset.get(), line.get()};
  auto entry = take(PyObject_Vectorcall(reinterpret_cast<PyObject*>(&PyTraceBack_Type), args, 4, nullptr));
  check(PyException_SetTraceback(exception, entry.get()));
}

}  // namespace pellucid::py
