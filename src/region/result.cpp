#include "region/result.h"

namespace pellucid::region {

PyObject* Args::keyword(const char* name) const {
  for (std::size_t i = 0; i < keyword_count(); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), name) == 0) return values[size() + i];
  }
  return nullptr;
}

}  // namespace pellucid::region
