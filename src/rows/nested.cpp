#include "rows/nested.h"

#include "rows/rows.h"

namespace pellucid::rows {

namespace {

// The tensor that torch keeps for its operators. Of this capture, whatever it is.
py::Owned<> known_dummy() {
  static PyObject* const get = py::import_attr("pellucid._nested", "dummy").release();
  return py::take(PyObject_CallNoArgs(get));
}

// torch's operator takes a nested tensor among its arguments, which says no more than that the result is one. The
// graph calls a function that adds it.
template <const char* kName, std::size_t kDummy>
Result without_dummy(Interpreter& t, PyObject* f, Args args) {
  static PyObject* const function = py::import_attr("pellucid._nested", kName).release();
  if (args.keyword_count() != 0 || args.size() <= kDummy || args[kDummy] != known_dummy().get())
    return refuse(t, f, args);
  std::vector<PyObject*> values(args.values.begin(), args.values.end());
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(kDummy));
  return t.region.recorder.torch_call(graph::Op::CallFunction, function, function, Args{values, nullptr});
}

Result dummy(Interpreter& t, PyObject*, Args) {
  auto found = known_dummy();
  t.region.provenance.note_constant(found.get());
  return Result::of(std::move(found));
}

// What torch says in its log once a process, where it makes such a tensor: it is said now.
Result says_once(Interpreter& t, PyObject* f, Args args) { return run_native(t, f, args); }

constexpr char kView[] = "view_from_jagged", kPadded[] = "from_padded";

const Row rows[] = {
    {"torch.fx._symbolic_trace.is_fx_tracing_warning", says_once},
    {"torch.nested._internal.nested_tensor._nt_view_dummy", dummy},
    {"torch._nested_view_from_jagged", without_dummy<kView, 2>},
    {"torch._nested_from_padded_tensor", without_dummy<kPadded, 2>},
};

}  // namespace

const std::span<const Row> kNestedRows = rows;

}  // namespace pellucid::rows
