#include "region/frame.h"

#include "base/reasons.h"

namespace pellucid::region {

const bytecode::DecodedCode& decoded_code(PyCodeObject* code) {
  try {
    return bytecode::decoded(code);
  } catch (const py::PythonError&) {
    unsupported(Reason::UntracedCallable, {{"callee", "the bytecode of " + py::text_of(code->co_qualname)}});
  }
}

}  // namespace pellucid::region
