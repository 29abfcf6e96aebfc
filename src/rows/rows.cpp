#include "rows/rows.h"

#include "region/generator.h"

namespace pellucid::rows {

void initialise() {
  PyObject* core = py::module_named("pellucid._core");
  py::check(PyObject_SetAttrString(core, "TracedGenerator", reinterpret_cast<PyObject*>(region::generator_type())));
  protocols::initialise_table({kPureRows, kBuiltinRows, kContainerRows, kTorchRows, kOperatorRows, kFunctoolsRows,
                               kGeneratorRows, kInspectRows, kRegexRows, kLoggingRows, kExceptionRows, kClassRows,
                               kCompilingRows, kIteratorRows, kComptimeRows, kTrainingRows, kTensorFactorRows},
                              kNamedTorchRows);
  py::check(PyObject_DelAttrString(core, "TracedGenerator"));  // it had a name for its rows only
}

}  // namespace pellucid::rows
