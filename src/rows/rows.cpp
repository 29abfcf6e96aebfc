#include "rows/rows.h"

#include "region/generator.h"
#include "rows/copying.h"
#include "rows/nested.h"

namespace pellucid::rows {

py::Owned<> tuple_of(std::span<PyObject* const> items) {
  auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (std::size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  return tuple;
}

void initialise() {
  PyObject* core = py::module_named("pellucid._core");
  py::check(PyObject_SetAttrString(core, "TracedGenerator", reinterpret_cast<PyObject*>(region::generator_type())));
  protocols::initialise_table(
      {kPureRows,      kBuiltinRows,     kContainerRows,     kTorchRows,        kOperatorRows,     kFunctoolsRows,
       kGeneratorRows, kInspectRows,     kRegexRows,         kLoggingRows,      kExceptionRows,    kClassRows,
       kCompilingRows, kIteratorRows,    kComptimeRows,      kTrainingRows,     kTensorFactorRows, kTransformRows,
       kBodyRows,      kNumpyRows,       kTorchFunctionRows, kFunctionModeRows, kHookRows,         kHigherOrderRows,
       kRandomRows,    kDistributedRows, kNestedRows,        kCopyingRows,      kScanRows},
      kNamedTorchRows);
  add_numpy_functions();
  add_numpy_draws();
  py::check(PyObject_DelAttrString(core, "TracedGenerator"));  // it had a name for its rows only
}

}  // namespace pellucid::rows
