#include "runtime/graph_call.h"

#include <structmember.h>

#include <optional>
#include <utility>

namespace pellucid::runtime {
namespace {

struct GraphCall {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* compiled;
  aten::GlobalState* before;  // owned
  GraphFacts* facts;          // owned
  bool reported;
};

PyTypeObject* graph_call_type = nullptr;
thread_local PyObject* failed = nullptr;  // raised and left no trace; compared only, never followed

GraphCall* cast(PyObject* object) noexcept { return reinterpret_cast<GraphCall*>(object); }

void save(aten::Checkpoint& checkpoint, const UndoPlan& plan, PyObject* const* args, std::size_t count) {
  for (const UndoPlan::Input& input : plan.inputs) {
    if (input.position < count) checkpoint.save(args[input.position], input.keep);
  }
  for (const UndoPlan::Attribute& attribute : plan.attributes) checkpoint.save(attribute.tensor.get(), attribute.keep);
  for (std::size_t i = 0; i < count; ++i) checkpoint.save_if_view(args[i]);
  if (plan.generators) checkpoint.save_generators(plan.cuda);
}

// With the error of the graph pending, before and after. An error of ours takes its place.
bool took_back(aten::Checkpoint* checkpoint, const aten::GlobalState& before) {
  py::PythonError error;
  before.restore();
  const bool complete = checkpoint == nullptr || checkpoint->restore();
  error.restore();
  return complete;
}

PyObject* call(PyObject* object, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  GraphCall* self = cast(object);
  return py::enter([&]() -> py::Owned<> {
    std::optional<aten::Checkpoint> checkpoint;
    if (!self->facts->undo.is_empty()) {
      save(checkpoint.emplace(), self->facts->undo, args, static_cast<std::size_t>(PyVectorcall_NARGS(nargsf)));
    }
    auto result = py::Owned<>::steal(PyObject_Vectorcall(self->compiled, args, nargsf, kwnames));
    if (result) return result;
    failed = took_back(checkpoint ? &*checkpoint : nullptr, *self->before) ? object : nullptr;
    py::throw_pending();
  });
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(cast(object)->compiled);
  if (cast(object)->facts == nullptr) return 0;
  for (const UndoPlan::Attribute& attribute : cast(object)->facts->undo.attributes) Py_VISIT(attribute.tensor.get());
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  Py_CLEAR(cast(object)->compiled);
  const std::unique_ptr<aten::GlobalState> before(cast(object)->before);
  const std::unique_ptr<GraphFacts> facts(cast(object)->facts);
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  const auto held_type = py::Owned<PyTypeObject>::steal(type);
}

PyObject* repr(PyObject* object) { return PyUnicode_FromFormat("<graph compiled to %R>", cast(object)->compiled); }

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GraphCall, vectorcall), READONLY, nullptr},
    {"__wrapped__", T_OBJECT, offsetof(GraphCall, compiled), READONLY, nullptr},
    {},
};

}  // namespace

py::Owned<> make_graph_call(PyObject* compiled, GraphFacts facts, std::unique_ptr<aten::GlobalState> before) {
  auto object = py::take(PyType_GenericAlloc(graph_call_type, 0));
  GraphCall* self = cast(object.get());
  self->vectorcall = call;
  self->compiled = Py_NewRef(compiled);
  self->before = before.release();
  self->facts = new GraphFacts(std::move(facts));
  return object;
}

bool may_run_again(PyObject* graph_call) noexcept {
  if (graph_call == nullptr || std::exchange(failed, nullptr) != graph_call) return false;
  return PyErr_ExceptionMatches(PyExc_Exception) != 0;
}

bool should_report(PyObject* graph_call) noexcept {
  GraphCall* self = cast(graph_call);
  return self->facts->is_opaque && !std::exchange(self->reported, true);
}

// No tp_clear: the cycles it can be in go through the dict of the region's globals.
void initialise_graph_call_type(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_repr, reinterpret_cast<void*>(repr)},
      {Py_tp_members, kMembers},
      {0, nullptr},
  };
  static PyType_Spec spec = {"pellucid._core.GraphCall", sizeof(GraphCall), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};
  graph_call_type =
      reinterpret_cast<PyTypeObject*>(py::take(PyType_FromModuleAndSpec(module, &spec, nullptr)).release());
}

}  // namespace pellucid::runtime
