#include "codegen/input_loader.h"

#include <structmember.h>

#include <algorithm>
#include <map>
#include <memory>

#include "py/hinted_lookup.h"

namespace pellucid::codegen {
namespace {

using source::Source;
using source::Step;

struct LoadProgram {
  std::vector<Source> steps;     // copies, parents first; `index` of a root is the number of the argument
  std::vector<int> base;         // position of a step's base, -1 for roots
  std::vector<int> wanted;       // the steps whose values are the inputs
  std::vector<bool> is_name;     // a dict item whose key is an interned str
  std::vector<Py_ssize_t> hint;  // where a name was found the last time
  Py_ssize_t arguments = 0;
  bool makes_objects = false;  // some step makes an object, which may start the collector
};

struct LoaderObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  LoadProgram* program;
};

LoaderObject* as_loader(PyObject* self) { return reinterpret_cast<LoaderObject*>(self); }

class Run {
 public:
  Run(LoadProgram& program, PyObject* const* arguments)
      : program_(program), arguments_(arguments), values_(program.steps.size()) {}
  py::Owned<> inputs() {
    // First, as it may start the collector: a finaliser must not change what borrowed values hang on.
    auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(program_.wanted.size())));
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = load(i);
      if (values_[i] == nullptr) fail(i);
      if (program_.makes_objects) held_.push_back(py::Owned<>::share(values_[i]));
    }
    Py_ssize_t at = 0;
    for (int step : program_.wanted)
      PyTuple_SET_ITEM(tuple.get(), at++, Py_NewRef(values_[static_cast<std::size_t>(step)]));
    return tuple;
  }

 private:
  PyObject* load(std::size_t i) {
    const Source& step = program_.steps[i];
    if (program_.base[i] < 0) return step.step == Step::Const ? step.operand.get() : arguments_[step.index];
    PyObject* base = values_[static_cast<std::size_t>(program_.base[i])];
    if (step.step == Step::InstanceAttr) return py::instance_attr_hinted(base, step.operand.get(), program_.hint[i]);
    if (program_.is_name[i])
      return PyDict_Check(base) ? py::dict_get_hinted(base, step.operand.get(), program_.hint[i]) : nullptr;
    py::Owned<> fresh;
    PyObject* value = source::load_step(step, base, nullptr, nullptr, fresh);
    if (fresh) held_.push_back(std::move(fresh));
    return value;
  }
  [[noreturn]] void fail(std::size_t i) const {
    PyErr_Format(PyExc_RuntimeError, "pellucid: %s does not exist any more", source::print(&program_.steps[i]).c_str());
    py::throw_pending();
  }

  LoadProgram& program_;
  PyObject* const* arguments_;
  std::vector<PyObject*> values_;  // borrowed from their owners; held when something may run between the loads
  std::vector<py::Owned<>> held_;  // values made by reading them
};

struct Ready {
  PyObject* loader = nullptr;  // borrowed
  PyObject* inputs = nullptr;  // owned; plain so that the end of a thread needs no interpreter
};
thread_local Ready ready;

PyObject* call(PyObject* self, PyObject* const* arguments, std::size_t nargsf, PyObject* kwnames) {
  if (ready.loader == self && ready.inputs != nullptr) return std::exchange(ready.inputs, nullptr);
  return py::enter([&]() -> py::Owned<> {
    LoadProgram* program = as_loader(self)->program;
    if (program == nullptr || kwnames != nullptr || PyVectorcall_NARGS(nargsf) != program->arguments) {
      PyErr_SetString(PyExc_TypeError, "an input loader takes exactly the roots of its sources");
      py::throw_pending();
    }
    return Run(*program, arguments).inputs();
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (LoadProgram* program = as_loader(self)->program) {
    for (const Source& step : program->steps) Py_VISIT(step.operand.get());
  }
  return 0;
}
int clear(PyObject* self) {
  std::unique_ptr<LoadProgram> last(std::exchange(as_loader(self)->program, nullptr));
  return 0;
}
void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* loader_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(LoaderObject, vectorcall), READONLY, nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_members, members},
                                {}};
  static PyType_Spec spec = {
      "pellucid.InputLoader", sizeof(LoaderObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::take(PyType_FromSpec(&spec)).release());
  return type;
}

// Every source that the inputs need, parents first (a table numbers them in that order).
std::vector<const Source*> closure_of(const std::vector<const Source*>& inputs) {
  std::map<int, const Source*> by_id;
  for (const Source* input : inputs) {
    for (const Source* s = input; s != nullptr && by_id.emplace(s->id, s).second;) s = s->base;
  }
  std::vector<const Source*> all;
  for (const auto& [id, source] : by_id) all.push_back(source);
  return all;
}

std::unique_ptr<LoadProgram> compile(const std::vector<const Source*>& inputs, std::vector<const Source*>& roots) {
  auto program = std::make_unique<LoadProgram>();
  std::map<const Source*, int> position;
  const auto all = closure_of(inputs);
  program->steps.reserve(all.size());  // copies point at each other: for messages
  for (const Source* source : all) {
    const int at = static_cast<int>(program->steps.size());
    position.emplace(source, at);
    Source copy{source->step, nullptr, source->operand.copy(), source->index, at};
    const int base = source->base != nullptr ? position.at(source->base) : -1;
    if (base >= 0) copy.base = &program->steps[static_cast<std::size_t>(base)];
    if (base < 0 && source->step != Step::Const) {
      copy.index = static_cast<std::int64_t>(roots.size());
      roots.push_back(source);
    }
    program->steps.push_back(std::move(copy));
    program->makes_objects |= source->step == Step::Member || source->step == Step::DictOf ||
                              source->step == Step::Plain || source->step == Step::OverArray;
    program->base.push_back(base);
    PyObject* key = source->operand.get();
    program->is_name.push_back(source->step == Step::DictItem && PyUnicode_CheckExact(key) &&
                               PyUnicode_CHECK_INTERNED(key) != 0);
  }
  program->hint.assign(all.size(), 0);
  for (const Source* input : inputs) program->wanted.push_back(position.at(input));
  program->arguments = static_cast<Py_ssize_t>(roots.size());
  return program;
}

}  // namespace

ReadyInputs::ReadyInputs(PyObject* loader, py::Owned<> inputs) noexcept
    : outer_loader_(ready.loader), outer_inputs_(py::Owned<>::steal(ready.inputs)) {
  ready = {loader, inputs.release()};
}
ReadyInputs::~ReadyInputs() {
  const auto left = py::Owned<>::steal(ready.inputs);
  ready = {outer_loader_, outer_inputs_.release()};
}

InputLoader make_input_loader(const std::vector<const Source*>& inputs) {
  InputLoader loader;
  auto program = compile(inputs, loader.roots);
  auto* object = PyObject_GC_New(LoaderObject, loader_type());
  if (object == nullptr) py::throw_pending();
  object->vectorcall = call;
  object->program = program.release();
  PyObject_GC_Track(object);
  loader.function = py::Owned<>::steal(reinterpret_cast<PyObject*>(object));
  return loader;
}

}  // namespace pellucid::codegen
